"""Hugging Face transformers built from their configurations, with the sequence classification heads of FastSA.

No weights and no network: what the published configurations say beyond the defaults of their classes
stands here. Attention is computed operator by operator (`eager`), as in the graphs of FastSA.
A sample is a row of tokens; the module puts out two logits for each row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest.mock import patch

import torch
from torch import nn

from ..errors import ProfilerError

ABOUT = "text models of Hugging Face from their configurations, to classify sequences (attention not fused)"

_NEO: dict[str, object] = {"attention_types": [[["global", "local"], 6]], "num_layers": 12, "hidden_size": 768, "num_heads": 12}
_NEO_LARGE: dict[str, object] = {"attention_types": [[["global", "local"], 16]], "num_layers": 32, "hidden_size": 2560, "num_heads": 20}
_BLOOM: dict[str, object] = {"vocab_size": 250880, "hidden_size": 1024, "n_layer": 24, "n_head": 16}
_OPT: dict[str, object] = {"hidden_size": 1024, "num_hidden_layers": 24, "ffn_dim": 4096, "num_attention_heads": 16,
        "word_embed_proj_dim": 512, "do_layer_norm_before": False}
_OPT_LARGE: dict[str, object] = {"hidden_size": 4096, "num_hidden_layers": 32, "ffn_dim": 16384, "num_attention_heads": 32,
              "word_embed_proj_dim": 4096}
_ALBERT: dict[str, object] = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}

# Prefix of the classes, and what the published configuration has besides their defaults.
CONFIGURATIONS: dict[str, tuple[str, dict[str, object]]] = {
    "albert-base-v2": ("Albert", _ALBERT),
    "bert-base-uncased": ("Bert", {}),
    "distilbert-base-uncased": ("DistilBert", {}),
    "electra-small-discriminator": ("Electra", {}),
    "gpt2": ("GPT2", {}),
    "gpt-neo-125m": ("GPTNeo", _NEO),
    "gpt-neo-2.7b": ("GPTNeo", _NEO_LARGE),
    "bloom-560m": ("Bloom", _BLOOM),
    "bloom-3b": ("Bloom", {**_BLOOM, "hidden_size": 2560, "n_layer": 30, "n_head": 32}),
    "opt-350m": ("OPT", _OPT),
    "opt-6.7b": ("OPT", _OPT_LARGE),
    "llama-7b": ("Llama", {}),
}

# Those of Table 4, which read whole sentences; the others, of Table 5, are language models.
TEXT = ("albert-base-v2", "bert-base-uncased", "distilbert-base-uncased", "electra-small-discriminator")


class Classifier(nn.Module):
    """A transformer that is called with tokens and returns logits."""

    takes_tokens = True

    def __init__(self, transformer: nn.Module) -> None:
        super().__init__()
        self.transformer = transformer

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of each row; given embeddings, a language model takes the last token of each row without
        looking for padding in it."""
        with _rows_are_whole_sequences():
            return self.transformer(inputs_embeds=self.transformer.get_input_embeddings()(tokens)).logits


@contextlib.contextmanager
def _rows_are_whole_sequences() -> Iterator[None]:
    """Leaves out two looks at the values of the input, which fake tensors do not have: whether a row is
    several packed sequences (it is one), and a warning that it may be padded (it is not)."""
    from transformers import PreTrainedModel, masking_utils

    with (
        patch.object(masking_utils, "find_packed_sequence_indices", lambda *_positions: None),
        patch.object(PreTrainedModel, "warn_if_padding_and_no_attention_mask", lambda *_arguments: None),
    ):
        yield


def names() -> list[str]:
    """Names of the configurations."""
    return list(CONFIGURATIONS)


def build(name: str) -> nn.Module:
    """Builds one."""
    try:
        import transformers
    except ImportError as error:
        raise ProfilerError("models transformers:... need transformers (scripts/setup.sh --profiler installs it)") from error
    transformers.utils.logging.set_verbosity_error()  # it warns that padding goes unnoticed: there is none
    prefix, options = CONFIGURATIONS[name]
    configuration = getattr(transformers, f"{prefix}Config")(**options, attn_implementation="eager")
    configuration.use_cache = False
    configuration.pad_token_id = 0  # language models refuse to classify several rows without one
    return Classifier(getattr(transformers, f"{prefix}ForSequenceClassification")(configuration))
