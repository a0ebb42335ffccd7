//! What is exported reads as it should, and HiGHS reads the same model back.

use std::ffi::CString;

use remat_solvers::export::{write_lp, write_mps};
use remat_solvers::model::Numbered;
use remat_solvers::{BACKENDS, Backend, Kind, Model, Request};

/// Every kind of row and of bound.
#[expect(clippy::many_single_char_names, reason = "the names of the columns are of no interest")]
fn zoo() -> Model {
    let mut model = Model { offset: 2.5, ..Model::default() };
    let x = model.binary(1.0);
    let y = model.column(-3.0, 4.0, -2.0, Kind::Integer);
    let z = model.column(f64::NEG_INFINITY, f64::INFINITY, 0.0, Kind::Continuous);
    let w = model.column(1.0, f64::INFINITY, 0.5, Kind::Continuous);
    let v = model.column(2.0, 2.0, 0.0, Kind::Continuous);
    model.at_most(5.0, [(x, 1.0), (y, 2.0)]);
    model.at_least(-1.5, [(y, -1.0), (z, 1.0)]);
    model.equal(0.0, [(z, 1.0), (w, -1.0), (v, 0.25)]);
    model.rows.push(-2.0, 6.0, [(x, 3.0), (z, 1e-3)]);
    model
}

fn written(write: impl Fn(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).expect("memory takes everything");
    String::from_utf8(out).expect("text")
}

#[test]
fn lp_text_shows_every_kind_of_row_and_bound() {
    let head = [("instance", "zoo".to_owned())];
    insta::assert_snapshot!(written(|out| write_lp(out, &zoo(), &Numbered, &head)));
}

#[test]
fn mps_text_shows_every_kind_of_row_and_bound() {
    insta::assert_snapshot!(written(|out| write_mps(out, &zoo(), &Numbered, &[])));
}

#[test]
fn every_backend_solves_every_kind_of_row_and_bound_alike() {
    let solve = |backend: &dyn Backend| backend.solve(&zoo(), &Request::default()).expect("solves").objective;
    let expected = solve(BACKENDS[0]).expect("feasible");
    for backend in BACKENDS.iter().filter(|backend| backend.available().is_ok()) {
        let found = solve(*backend);
        assert!(found.is_some_and(|found| (found - expected).abs() < 1e-5), "{}: {found:?}", backend.id());
    }
}

#[test]
fn every_backend_reads_numbers_of_many_digits() {
    let mut model = Model { offset: 7.450_580_596_923_828e-9, ..Model::default() };
    let x = model.column(0.0, 1.234_567_890_123_456_7e17, 7.450_580_596_923_828e-9, Kind::Continuous);
    let y = model.binary(-0.000_012_345_678_901_234_567);
    model.at_least(1.0, [(x, 1.0), (y, -1.0)]);
    for backend in BACKENDS.iter().filter(|backend| backend.available().is_ok()) {
        let outcome = backend.solve(&model, &Request::default()).expect("solves");
        assert!(outcome.incumbent.is_some(), "{}: {}", backend.id(), outcome.raw_status);
    }
}

#[test]
fn highs_reads_back_the_optimum_from_both_formats() {
    let model = zoo();
    let expected = BACKENDS[0].solve(&model, &Request::default()).expect("solves").objective.expect("feasible");
    let texts = [
        ("lp", written(|out| write_lp(out, &model, &Numbered, &[]))),
        ("mps", written(|out| write_mps(out, &model, &Numbered, &[]))),
    ];
    for (extension, text) in texts {
        let path = std::env::temp_dir().join(format!("remat-export-{}.{extension}", std::process::id()));
        std::fs::write(&path, text).expect("writes");
        let name = CString::new(path.to_str().expect("text")).expect("no NUL");
        // SAFETY: one instance, made, used and destroyed here.
        let objective = unsafe {
            let highs = highs_sys::Highs_create();
            highs_sys::Highs_setBoolOptionValue(highs, c"output_flag".as_ptr(), 0);
            assert_ne!(highs_sys::Highs_readModel(highs, name.as_ptr()), highs_sys::STATUS_ERROR, "{extension}");
            highs_sys::Highs_run(highs);
            let objective = highs_sys::Highs_getObjectiveValue(highs);
            highs_sys::Highs_destroy(highs);
            objective
        };
        std::fs::remove_file(&path).expect("is there");
        assert!((objective - expected).abs() < 1e-9, "{extension}: {objective} instead of {expected}");
    }
}
