"""Reads a published config.json key by key and refuses what is not covered.

A configuration that is only almost understood gives a model that is only almost right, and says nothing. So every key
is either used, known to have no influence on a forward, or must have one of the values that the carrier computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wmbench.errors import ConfigError

_REQUIRED: Any = object()

_GENERIC = """
    _attn_implementation_autoset _commit_hash _name_or_path add_cross_attention architectures attn_implementation
    auto_map bad_words_ids begin_suppress_tokens bos_token_id chunk_size_feed_forward cross_attention_hidden_size
    decoder_start_token_id diversity_penalty do_sample dtype early_stopping encoder_no_repeat_ngram_size eos_token_id
    exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id id2label is_decoder
    is_encoder_decoder label2id length_penalty mask_token_id max_length min_length model_type no_repeat_ngram_size
    num_beam_groups num_beams num_return_sequences output_attentions output_hidden_states output_scores pad_token_id
    prefix problem_type pruned_heads remove_invalid_values repetition_penalty return_dict return_dict_in_generate
    sep_token_id suppress_tokens task_specific_params temperature tf_legacy_loss tie_encoder_decoder tokenizer_class
    top_k top_p torch_dtype torchscript transformers_version typical_p use_bfloat16 use_cache
"""
WITHOUT_INFLUENCE = frozenset(_GENERIC.split())
"""Keys that transformers writes into any configuration: names, special ids (read elsewhere), generation, training."""


class ConfigKeys:
    """The keys of one configuration; `finish` refuses those that nobody has asked for."""

    def __init__(self, config: Mapping[str, Any], where: str) -> None:
        self._config = config
        self._where = where
        self._read = set(WITHOUT_INFLUENCE)

    def value(self, name: str, default: Any = _REQUIRED) -> Any:
        """The value of a key. Null counts as absent."""
        self._read.add(name)
        found = self._config.get(name)
        if found is not None:
            return found
        if default is _REQUIRED:
            raise ConfigError(f"config.json has no {name!r}", where=self._where, hint="is this the published file?")
        return default

    def size(self, name: str, default: Any = _REQUIRED) -> int:
        """A positive whole number."""
        found = self.value(name, default)
        if isinstance(found, bool) or not isinstance(found, int) or found < 1:
            raise self.refusal(name, found, "a positive whole number is needed")
        return found

    def number(self, name: str, default: Any = _REQUIRED) -> float:
        found = self.value(name, default)
        if isinstance(found, bool) or not isinstance(found, (int, float)):
            raise self.refusal(name, found, "a number is needed")
        return float(found)

    def must_be(self, name: str, *covered: Any, default: Any) -> None:
        """Only these values are computed by the carrier; `default` is what a missing key means there."""
        self._read.add(name)
        found = self._config.get(name, default)
        if not any(found == value and type(found) is type(value) for value in covered):
            shown = " or ".join(repr(value) for value in covered)
            raise self.refusal(name, found, f"only {shown} is covered")

    def skip(self, *names: str) -> None:
        """Keys without influence on a forward in evaluation: dropout, initialisation, training."""
        self._read.update(names)

    def rope(self, **defaults: float) -> dict[str, Any]:
        """Settings of plain rotary embeddings, the only covered ones; `defaults` are what missing keys mean.

        transformers 5 repeats them inside of `rope_parameters`; `rope_scaling` is what older versions called it.
        """
        repeated: dict[str, Any] = {}
        for place in ("rope_parameters", "rope_scaling"):
            stated = self.value(place, {})
            kinds = {"rope_type", "type"}
            if not isinstance(stated, dict) or any(stated.get(kind, "default") != "default" for kind in kinds):
                raise self.refusal(place, stated, "only plain rotary embeddings are covered")
            if unknown := set(stated) - kinds - set(defaults):
                raise self.refusal(place, stated, f"{', '.join(sorted(unknown))} is not covered")
            repeated |= {name: stated[name] for name in defaults if stated.get(name) is not None}
            for name in repeated:
                if self.value(name, repeated[name]) != repeated[name]:
                    raise self.refusal(place, stated, f"it contradicts {name} = {self.value(name)!r}")
        found = {name: self.number(name, repeated.get(name, default)) for name, default in defaults.items()}
        return {"rope_type": "default", **found}

    def finish(self) -> None:
        unknown = sorted(name for name in set(self._config) - self._read if self._config[name] is not None)
        if unknown:
            raise ConfigError(
                f"config.json has a key that is not covered: {unknown[0]!r}",
                where=self._where,
                why=f"its effect on the model is not known here; not covered: {', '.join(unknown)}",
                hint="use the published config.json; a variant of the model needs an adapter of its own",
            )

    def refusal(self, name: str, found: Any, why: str) -> ConfigError:
        return ConfigError(
            f"config.json: {name} = {found!r} is not covered",
            where=self._where,
            why=why,
            hint="use the published checkpoint; a variant of the model needs an adapter of its own",
        )
