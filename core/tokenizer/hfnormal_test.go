package tokenizer

import (
	"fmt"
	"slices"
	"testing"
)

// bytesVocabulary is a vocabulary of the bytes alone.
func bytesVocabulary() Vocabulary {
	v := Vocabulary{Model: BPE, Special: NoSpecial}
	for b := range 256 {
		v.Tokens = append(v.Tokens, Token{Text: ToAlphabet(string([]byte{byte(b)})), Type: Normal})
	}
	return v
}

// TestStripOfBPE compares the sides that are stripped with those that the file names.
func TestStripOfBPE(t *testing.T) {
	plain, err := FromHuggingFace(writeHF(t, bytesVocabulary(), "null", hfGPT2, "null", false, false), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		left, right bool
		want        string
	}{{true, true, "a  b"}, {true, false, "a  b \n"}, {false, true, " \u00a0a  b"}, {false, false, " \u00a0a  b \n"}} {
		file := writeHF(t, bytesVocabulary(), fmt.Sprintf(`{"type":"Strip","strip_left":%t,"strip_right":%t}`, c.left, c.right), hfGPT2, "null", false, false)
		tok, err := FromHuggingFace(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := tok.Encode(" \u00a0a  b \n", Options{}), plain.Encode(c.want, Options{}); !slices.Equal(got, want) {
			t.Errorf("left %t, right %t: got %v, want %v", c.left, c.right, got, want)
		}
	}
	if _, err := FromHuggingFace(writeHF(t, bytesVocabulary(), `{"type":"Precompiled","precompiled_charsmap":"BAAAAAAAAAA="}`, hfGPT2, "null", false, false), nil); err == nil {
		t.Error("the normalizer Precompiled of BPE is ignored")
	}
}

// TestOrderOfNamedTokens holds the ids of tokens with a role: transformers adds them in the order
// of tokenizer_config.json, and a later key with the same name replaces the token in its place.
func TestOrderOfNamedTokens(t *testing.T) {
	file := writeHF(t, bytesVocabulary(), "null", hfGPT2, "null", false, false)
	tok, err := FromHuggingFace(file, []byte(`{"video_token":"<video>","audio_token":"<audio>","eos_token":"</s>","extra_special_tokens":{"image_token":"<image>","boi_token":"<boi>","audio_token":"<sound>"}}`))
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{"</s>", "<video>", "<sound>", "<image>", "<boi>"} {
		if got := tok.ID(text); got != int32(256+i) {
			t.Errorf("%s: got id %d, want %d", text, got, 256+i)
		}
	}
}

// TestOlderFiles holds the ids of tokens that special_tokens_map.json and added_tokens.json add, and
// that both are ignored where tokenizer_config.json has the tokens.
func TestOlderFiles(t *testing.T) {
	file := writeHF(t, bytesVocabulary(), "null", hfGPT2, "null", false, false)
	config := `{"zz_token":"<zz>","bb_token":"<bb>","eos_token":"<e>"`
	roles := `{"yy_token":"<yy>","aa_token":{"content":"<aa>"},"bb_token":"<b2>","eos_token":"</s>","extra_special_tokens":{"qq_token":"<qq>"}}`
	for _, c := range []struct {
		config, added string
		want          []string // from the id 256 on; nil: refused
	}{
		{config + "}", `{}`, []string{"</s>", "<yy>", "<aa>", "<bb>", "<zz>", "<qq>"}},
		{config + "}", `{"<late>":256,"<yy>":257}`, []string{"<late>", "<yy>", "</s>", "<aa>", "<bb>", "<zz>", "<qq>"}},
		{config + "}", `{"<late>":300}`, nil},
		{config + "}", `{"<late>":256,"<later>":256}`, nil},
		{config + "}", `[]`, nil},
		{config + `,"added_tokens_decoder":{}}`, `{"<late>":300}`, []string{"<e>", "<zz>", "<bb>"}},
	} {
		tok, err := FromTransformers(Transformers{Tokenizer: file, Config: []byte(c.config), SpecialTokens: []byte(roles), AddedTokens: []byte(c.added)})
		if (err != nil) != (c.want == nil) {
			t.Fatalf("%s %s: %v", c.config, c.added, err)
		}
		if err != nil {
			continue
		}
		for i, text := range c.want {
			if got := tok.ID(text); got != int32(256+i) {
				t.Errorf("%s %s: %s has id %d, want %d", c.config, c.added, text, got, 256+i)
			}
		}
		if n := len(tok.Vocabulary().Tokens); n != 256+len(c.want) {
			t.Errorf("%s %s: got %d tokens, want %d", c.config, c.added, n, 256+len(c.want))
		}
	}
}
