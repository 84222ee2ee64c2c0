package convert

import (
	"strings"
	"testing"

	"mm-abi.org/mm/core/tokenizer"
)

// The delimiter of words is a space, and special tokens are not text.
func TestReadLetters(t *testing.T) {
	vocab, blank, err := readLetters([]byte(`{"<pad>": 0, "<s>": 1, "|": 2, "A": 3, "B": 4}`), []byte(`{"pad_token": {"content": "<pad>"}}`))
	if err != nil || blank != 0 {
		t.Fatal(blank, err)
	}
	if got := vocab.Decode([]int32{3, 2, 4, 3}, tokenizer.DecodeOptions{Continued: true}); got != "A BA" {
		t.Errorf("got %q", got)
	}
	for want, in := range map[string][2]string{
		"missing pad_token":  {`{"A": 0}`, `{}`},
		"id 2 of":            {`{"<pad>": 0, "A": 2}`, `{}`},
		"id 0 of":            {`{"<pad>": 0, "A": 0}`, `{}`},
		"id -1 of":           {`{"<pad>": 0, "A": -1}`, `{}`},
		"target_lang":        {`{"<pad>": 0}`, `{"target_lang": "eng"}`},
		"vocab.json: ":       {`[]`, `{}`},
		"tokenizer_config":   {`{"<pad>": 0}`, `[]`},
		"tokenizer_config.j": {`{"<pad>": 0}`, `{"pad_token": 3}`},
	} {
		if _, _, err := readLetters([]byte(in[0]), []byte(in[1])); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}
