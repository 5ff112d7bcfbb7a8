"""A language model with random weights, 0.5 MB as GGUF: LLaMA's architecture on a vocabulary of bytes.

Its answers mean nothing; the server, tokenizer, sampling and protocol around it are the real ones.
"""

import gguf
import numpy as np

WIDTH, FEED_FORWARD, HEADS, LAYERS, CONTEXT = 64, 128, 4, 2, 4096


def write(path, seed=0):
    """Writes the model to `path`."""
    rng = np.random.default_rng(seed)

    def random(*shape, scale=0.08):
        return (rng.standard_normal(shape) * scale).astype(np.float32)

    tokens = [b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % byte for byte in range(256)]
    kinds = [gguf.TokenType.UNKNOWN] + [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.BYTE] * 256
    printable = ["\u2581"] + [chr(code) for code in range(33, 127)]
    tokens += [letter.encode() for letter in printable]
    kinds += [gguf.TokenType.NORMAL] * len(printable)

    out = gguf.GGUFWriter(str(path), "llama")
    out.add_name("random")
    out.add_context_length(CONTEXT)
    out.add_embedding_length(WIDTH)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(FEED_FORWARD)
    out.add_head_count(HEADS)
    out.add_head_count_kv(HEADS)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_dimension_count(WIDTH // HEADS)
    out.add_file_type(gguf.LlamaFileType.ALL_F32)
    out.add_vocab_size(len(tokens))
    out.add_tokenizer_model("llama")
    out.add_token_list(tokens)
    out.add_token_scores([0.0] * len(tokens))
    out.add_token_types(kinds)
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_unk_token_id(0)
    out.add_add_bos_token(True)
    out.add_add_space_prefix(False)
    out.add_chat_template("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:")

    out.add_tensor("token_embd.weight", random(len(tokens), WIDTH, scale=1.0))
    out.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    out.add_tensor("output.weight", random(len(tokens), WIDTH))
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        for norm in ("attn_norm", "ffn_norm"):
            out.add_tensor(f"{block}{norm}.weight", np.ones(WIDTH, np.float32))
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            out.add_tensor(f"{block}{name}.weight", random(WIDTH, WIDTH))
        out.add_tensor(f"{block}ffn_gate.weight", random(FEED_FORWARD, WIDTH))
        out.add_tensor(f"{block}ffn_up.weight", random(FEED_FORWARD, WIDTH))
        out.add_tensor(f"{block}ffn_down.weight", random(WIDTH, FEED_FORWARD))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
