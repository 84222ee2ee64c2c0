# Answers with the ids that Hugging Face's tokenizers library gives.
#
#   python huggingface.py TOKENIZER.json < requests > answers
#
# A request is u32 length, u8 add_special_tokens and the text; an answer is
# u32 count and that many i32.
import struct
import sys

import tokenizers

t = tokenizers.Tokenizer.from_file(sys.argv[1])
stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
while header := stdin.read(5):
    size, add = struct.unpack("<IB", header)
    text = stdin.read(size).decode("utf-8")
    ids = t.encode(text, add_special_tokens=bool(add)).ids
    stdout.write(struct.pack("<I%di" % len(ids), len(ids), *ids))
    stdout.flush()
