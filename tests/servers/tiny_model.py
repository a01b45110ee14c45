"""Writes a model for llama.cpp: tiny_model.py FILE

One layer, whose attention and network add nothing: the next token depends on the last one only, and the output matrix has a
successor for each token. The chat template ends the request with one of two tokens, from which one of two fixed answers follows: a
text, or, after a message that begins with "read", a call of Read.
Needs gguf and numpy.
"""

import sys

import gguf
import numpy

WIDTH, HEADS, CONTEXT = 320, 10, 16384

CALL = ["<tool_call>\n", '{"name": "Read", "arguments": {"path": "a.txt"}}', "\n</tool_call>"]
TEXT = ["Hello", "▁from", "▁llama.cpp."]

# The form of calls is that of Hermes and Qwen, which many templates have.
TEMPLATE = """\
{%- if tools %}<|im_start|>system
<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools>
For each call, return <tool_call>
{"name": <name>, "arguments": <arguments>}
</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == "tool" %}<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{% else %}<|im_start|>{{ message.role }}
{% if message.content %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls or [] %}
{%- set call = call.function or call %}
<tool_call>
{"name": "{{ call.name }}", "arguments": {{ call.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if messages[-1].role == "user" and messages[-1].content.startswith("read") %}<|call|>{% else %}<|text|>{% endif %}
{%- endif %}"""

SPECIAL = ["<unk>", "<s>", "<|im_end|>", "<|im_start|>", "<|call|>", "<|text|>"]


def main(path):
    kind = gguf.TokenType
    tokens = [(text, kind.CONTROL) for text in SPECIAL]
    tokens += [(f"<0x{byte:02X}>", kind.BYTE) for byte in range(256)]
    tokens += [(text, kind.NORMAL) for text in CALL + TEXT]
    index = {text: number for number, (text, _) in enumerate(tokens)}
    end = index["<|im_end|>"]

    def matrix(rows, columns):
        return numpy.zeros((rows, columns), dtype=numpy.float32)

    embeddings, output = matrix(len(tokens), WIDTH), matrix(len(tokens), WIDTH)
    successors = dict.fromkeys(range(len(tokens)), end)
    for line in (["<|call|>", *CALL], ["<|text|>", *TEXT]):
        successors.update(zip([index[text] for text in line], [index[text] for text in line[1:]]))
    for token, successor in successors.items():
        embeddings[token, token] = output[successor, token] = 1

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _ in tokens])
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([kind for _, kind in tokens])
    writer.add_unk_token_id(index["<unk>"])
    writer.add_bos_token_id(index["<s>"])
    writer.add_eos_token_id(end)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)
    writer.add_tensor("token_embd.weight", embeddings)
    writer.add_tensor("output.weight", output)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", numpy.ones(WIDTH, dtype=numpy.float32))
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{name}.weight", matrix(WIDTH, WIDTH))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main(sys.argv[1])
