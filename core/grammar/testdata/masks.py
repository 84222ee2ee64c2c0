"""Reads a line with the tokens of a vocabulary, then lines of {"name", "schema",
"texts"} with token ids, and prints the processor time of llguidance's masks of the same
texts, and how many of the schemas it compiles."""
import importlib.metadata
import json
import sys
import time

import llguidance


class Words:
    def __init__(self, head):
        self.tokens = [bytes.fromhex(t) for t in head["tokens"]]
        self.eos_token_id, self.bos_token_id = head["end"], None
        self.special_token_ids = head["special"]
        self.ids = {t: i for i, t in enumerate(self.tokens)}
        self.longest = max(map(len, self.tokens))

    def __call__(self, text):
        """The longest token each time."""
        text = text.encode() if isinstance(text, str) else text
        out = []
        while text:
            n = next(n for n in range(min(len(text), self.longest), 0, -1) if text[:n] in self.ids)
            out.append(self.ids[text[:n]])
            text = text[n:]
        return out


def main():
    words = Words(json.loads(sys.stdin.readline()))
    tokenizer = llguidance.LLTokenizer(
        llguidance.TokenizerWrapper(words), n_vocab=len(words.tokens), slices=llguidance.LLTokenizer.json_slices())
    masks, compiled, refused, ended = [], 0, 0, 0
    for line in sys.stdin:
        row = json.loads(line)
        grammar = llguidance.LLMatcher.grammar_from_json_schema(
            row["schema"] if isinstance(row["schema"], dict) else {}, defaults={"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"})
        if llguidance.LLMatcher.validate_grammar(grammar, tokenizer):
            refused += 1
            continue
        compiled += 1
        for ids in row["texts"]:
            matcher = llguidance.LLMatcher(tokenizer, grammar, log_level=0)
            for token in ids:
                began = time.thread_time_ns()
                matcher.compute_bitmask()
                masks.append(time.thread_time_ns() - began)
                if not matcher.consume_token(token):
                    ended += 1
                    break
    masks.sort()
    at = lambda q: masks[min(len(masks) - 1, int(q * len(masks)))] / 1000
    print(f"llguidance {importlib.metadata.version('llguidance')}: {compiled} schemas, {refused} refused; "
          f"{len(masks)} masks: p50 {at(.5):.1f}µs p90 {at(.9):.1f}µs p99 {at(.99):.1f}µs max {at(1):.0f}µs; {ended} texts left its grammar")


main()
