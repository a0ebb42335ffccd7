"""Networks of thousands of operators: language models, an image encoder and a translator at the sizes of their publications.

`llama2-70b` (Touvron et al. 2023, Table 1 and Section 2.2: 80 layers, 8 key-value heads for 64 heads), `llama3.1-405b`
(Grattafiori et al. 2024, Table 3: 126 layers, 8 key-value heads for 128 heads) and `gpt3-175b` (Brown et al. 2020, Table 2.1:
96 layers; attention is dense in all of them, where the publication alternates with sparse ones) predict the next token.
`vit-22b` (Dehghani et al. 2023, Table 1: 48 layers, attention and MLP side by side, normalised queries and keys) classifies images
of 224x224 in patches of 14x14; it is put together from timm's blocks, whose projections to queries, keys and values are one product
with the MLP's. `m2m100-1.2b` (Fan et al. 2020: 24 layers each in encoder and decoder) translates: its input `target` has as many
tokens as the sentence that it reads. Configurations are those of the published checkpoints, but for the scaling of LLaMA-3.1's
rotary frequencies, which are constants. Attention is computed operator by operator, as in FastSA's graphs.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn

from ..errors import ProfilerError
from . import timm as timm_family
from .transformers import _rows_are_whole_sequences

ABOUT = "networks of thousands of operators: LLaMA-2 70B, LLaMA-3.1 405B, GPT-3 175B, ViT-22B, M2M100 1.2B (attention not fused)"

# Class of transformers, and what the configuration has besides its defaults.
LANGUAGE: dict[str, tuple[str, dict[str, object]]] = {
    "llama2-70b": ("Llama", {
        "vocab_size": 32000, "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64,
        "num_key_value_heads": 8, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
    }),
    "llama3.1-405b": ("Llama", {
        "vocab_size": 128256, "hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126, "num_attention_heads": 128,
        "num_key_value_heads": 8, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
    }),
    "gpt3-175b": ("GPT2", {"vocab_size": 50257, "n_positions": 2048, "n_embd": 12288, "n_layer": 96, "n_head": 96}),
}
# Whole layers are left out at random there (layerdrop); here every one runs.
M2M100: dict[str, object] = {
    "vocab_size": 128112, "d_model": 1024, "encoder_layers": 24, "decoder_layers": 24, "encoder_attention_heads": 16,
    "decoder_attention_heads": 16, "encoder_ffn_dim": 8192, "decoder_ffn_dim": 8192, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0,
}
TRANSLATED_TOKENS = 512


class LanguageModel(nn.Module):
    """Logits of the next token, a row for each token."""

    takes_tokens = True

    def __init__(self, transformer: nn.Module) -> None:
        super().__init__()
        self.transformer = transformer

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Batch times length rows of logits."""
        with _rows_are_whole_sequences():
            logits: torch.Tensor = self.transformer(input_ids=tokens).logits
        return logits.flatten(0, 1)


class Translator(nn.Module):
    """Logits of the next token of a translation, a row for each token."""

    takes_tokens = True
    more_inputs = {"target": ((TRANSLATED_TOKENS,), torch.int64)}

    def __init__(self, transformer: nn.Module) -> None:
        super().__init__()
        self.transformer = transformer

    def forward(self, tokens: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Batch times length of the translation rows of logits."""
        with _rows_are_whole_sequences():
            logits: torch.Tensor = self.transformer(input_ids=tokens, decoder_input_ids=target).logits
        return logits.flatten(0, 1)


def names() -> list[str]:
    """Names of the networks."""
    return [*LANGUAGE, "vit-22b", "m2m100-1.2b"]


def build(name: str) -> nn.Module:
    """Builds one."""
    if name == "vit-22b":
        return _vit_22b()
    try:
        import transformers
    except ImportError as error:
        raise ProfilerError("models large:... need transformers (scripts/setup.sh --profiler installs it)") from error
    transformers.utils.logging.set_verbosity_error()
    library: Any = transformers
    if name == "m2m100-1.2b":
        configuration = library.M2M100Config(**M2M100, use_cache=False, attn_implementation="eager")
        return Translator(library.M2M100ForConditionalGeneration(configuration))
    prefix, options = LANGUAGE[name]
    configuration = getattr(library, f"{prefix}Config")(**options, use_cache=False, attn_implementation="eager")
    return LanguageModel(getattr(library, "LlamaForCausalLM" if prefix == "Llama" else "GPT2LMHeadModel")(configuration))


def _vit_22b() -> nn.Module:
    with timm_family.attention_not_fused() as timm:
        vit = timm.models.vision_transformer
        network: nn.Module = vit.VisionTransformer(
            img_size=224, patch_size=14, embed_dim=6144, depth=48, num_heads=48, mlp_ratio=4.0, qkv_bias=False, qk_norm=True,
            class_token=False, global_pool="map", block_fn=vit.ParallelScalingBlock, norm_layer=partial(nn.LayerNorm, eps=1e-6),
        )
        return network
