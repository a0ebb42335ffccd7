//! The book's Markdown as HTML. HTML within it is text, and of links only those to pages of the same folder and to the web stay.

use maud::{Markup, PreEscaped};
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// A page of the book, without its first heading, which is the page's own.
pub fn render(text: &str) -> Markup {
    let mut rendered = String::new();
    html::push_html(&mut rendered, events(text).into_iter());
    PreEscaped(rendered)
}

fn events(text: &str) -> Vec<Event<'_>> {
    let mut events = Vec::new();
    // Whether each link that is open stays one.
    let mut links = Vec::new();
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Html(text) | Event::InlineHtml(text) => events.push(Event::Text(text)),
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let target = target(&dest_url);
                links.push(target.is_some());
                if let Some(target) = target {
                    let dest_url = CowStr::from(target);
                    events.push(Event::Start(Tag::Link { link_type, dest_url, title, id }));
                }
            }
            Event::End(TagEnd::Link) => {
                if links.pop().unwrap_or_default() {
                    events.push(Event::End(TagEnd::Link));
                }
            }
            // Pictures are files of the checkout.
            Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => {}
            event => events.push(event),
        }
    }
    events
}

/// Where a link leads on the site; none: nowhere.
fn target(link: &str) -> Option<String> {
    if link.starts_with("https://") {
        return Some(link.to_owned());
    }
    let page = link.strip_suffix(".md").filter(|name| !name.contains(['/', ':']))?;
    Some(format!("{page}.html"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_in_markdown_is_text_and_links_stay_on_the_site() {
        let text = "<b>x</b> <script>y</script>\n\n<div>z</div>\n\n[a](monet.md) [b](../../src/lib.rs) [c](javascript:alert(1)) ![d](e.svg)";
        let page = render(text).into_string();
        for tag in ["<b>", "<script", "<div", "javascript", "lib.rs", "<img"] {
            assert!(!page.contains(tag), "{tag}: {page}");
        }
        assert!(
            page.contains("&lt;b&gt;x") && page.contains("href=\"monet.html\"") && page.contains(" b c d"),
            "{page}"
        );
    }
}
