"""Makes a tiny Llama with random weights, its tokenizer and a chat template.

    vllm_model.py DIR      the last line printed is the model's folder

The same bytes each time: seed, sizes and text are fixed. What it generates means
nothing, but it repeats itself in part, so that drafts by n-grams are accepted now
and then, which is all that a test of speculation needs.
"""
import json
import sys
from pathlib import Path

SEED = 5
SPREAD = 0.05  # of the weights: at 0.02 all output soon is a loop, at 0.08 nothing repeats itself
VOCABULARY = 512
CONTEXT = 2048
TEXT = "the quick brown fox jumps over the lazy dog and again the quick brown fox"
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"


def tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([TEXT], trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<unk>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    fast = PreTrainedTokenizerFast(tokenizer_object=t, unk_token="<unk>", bos_token="<s>", eos_token="</s>")
    fast.chat_template = TEMPLATE
    return fast


def model(seed=SEED, spread=SPREAD):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=CONTEXT, bos_token_id=1, eos_token_id=2,
        initializer_range=spread)).to(torch.bfloat16)


def main(folder):
    to = Path(folder) / f"tiny-llama-{SEED}-{SPREAD}"
    if not (to / "complete").exists():
        to.mkdir(parents=True, exist_ok=True)
        tokenizer().save_pretrained(to)
        model().save_pretrained(to)
        # Greedy, unless a request says otherwise; nothing else of its own.
        (to / "generation_config.json").write_text(json.dumps({"bos_token_id": 1, "eos_token_id": 2}))
        (to / "complete").touch()
    print(to.resolve())


if __name__ == "__main__":
    main(sys.argv[1])
