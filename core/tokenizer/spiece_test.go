package tokenizer

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"mm-abi.org/mm/core/gguf"
)

// jointFiles reads the tokenizer of a tiny model of scripts/joint.py, with the ids of its texts.
func jointFiles(t testing.TB, name string) (f Transformers, texts []string, ids [][]int32) {
	t.Helper()
	read := func(file string) []byte {
		data, err := os.ReadFile(filepath.Join("..", "..", "onnx", "sentence", "testdata", "joint", name, file))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return data
	}
	var want struct {
		Texts []string
		IDs   [][]int32
	}
	if err := json.Unmarshal(read("want.json"), &want); err != nil || len(want.Texts) < 20 {
		t.Fatal(len(want.Texts), err)
	}
	return Transformers{Tokenizer: read("tokenizer.json"), Config: read("tokenizer_config.json"), Pieces: read("spiece.model"), ModelType: name}, want.Texts, want.IDs
}

// TestJointIDs compares the ids of CLIP's and SigLIP's tokenizers with those of
// transformers, for the folder and for its GGUF file.
func TestJointIDs(t *testing.T) {
	for _, name := range []string{"clip", "siglip"} {
		files, texts, ids := jointFiles(t, name)
		tok, err := FromTransformers(files)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := gguf.Write(&b, append([]gguf.KV{{Key: gguf.KeyArchitecture, Value: "bert"}}, tok.KVs()...), nil); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "t.gguf")
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		g, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		again, err := FromGGUF(g)
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range texts {
			for _, tok := range []*Tokenizer{tok, again} {
				s, err := tok.Join(strings.TrimSpace(text), "", false, map[string]int{"clip": 24, "siglip": 16}[name])
				if err != nil {
					t.Fatal(err)
				}
				want := ids[i]
				if !slices.Equal(s.IDs, want) {
					t.Errorf("%s, %q: got %v, want %v", name, text, s.IDs, want)
				}
			}
		}
	}
}

// message appends a field of bytes to a message.
func message(b []byte, n protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
}

// flag appends a field of a number to a message.
func flag(b []byte, n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}

// piece returns the field of a piece.
func piece(text string, kind Type) []byte {
	return message(nil, spPieces, flag(message(nil, spText, []byte(text)), spType, uint64(kind)))
}

// TestSentenceModelRefuses adds to a SentencePiece model what would change the ids.
func TestSentenceModelRefuses(t *testing.T) {
	files, _, _ := jointFiles(t, "siglip")
	for want, more := range map[string][]byte{
		"want Unigram":                    message(nil, spTrainer, flag(nil, spModelType, 2)),
		"without byte_fallback":           message(nil, spTrainer, flag(nil, spFallback, 1)),
		"and treat_whitespace_as_suffix":  message(nil, spTrainer, flag(nil, spSuffix, 1)),
		"with remove_extra_whitespaces":   message(nil, spNormalizer, flag(nil, spExtraSpaces, 0)),
		"want one that maps ▁ to a space": message(nil, spNormalizer, message(nil, spCharsmap, nil)),
		"two unknown pieces":              piece("<other>", Unknown),
		"unsupported control piece":       piece("ctrl", Control),
		"unsupported type 4":              piece("user", UserDefined),
		"duplicate text of pieces":        piece("<unk>", Normal),
		"charsmap of 2 bytes":             message(nil, spNormalizer, message(nil, spCharsmap, []byte{1, 2})),
		"damaged SentencePiece model":     {0xff},
	} {
		f := files
		f.Pieces = append(slices.Clone(files.Pieces), more...)
		if _, err := FromTransformers(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	files.Pieces = nil
	if _, err := FromTransformers(files); err == nil || !strings.Contains(err.Error(), "missing spiece.model") {
		t.Errorf("without a model: %v", err)
	}
	if _, err := FromTransformers(Transformers{Pieces: []byte{}, ModelType: "t5"}); err == nil || !strings.Contains(err.Error(), "missing tokenizer.json") {
		t.Errorf("T5 with a SentencePiece model alone: %v", err)
	}
}

// TestSuffix has the suffix of words at its limit and one beyond it, and of other models.
func TestSuffix(t *testing.T) {
	files, _, _ := jointFiles(t, "clip")
	tok, err := FromTransformers(files)
	if err != nil {
		t.Fatal(err)
	}
	v := tok.Vocabulary()
	with := func(suffix string, change func(v *Vocabulary)) error {
		w := v
		w.Suffix, w.Tokens, w.Merges = suffix, slices.Clone(v.Tokens), nil
		for i := range w.Tokens {
			w.Tokens[i].Text = strings.ReplaceAll(w.Tokens[i].Text, "</w>", suffix)
		}
		change(&w)
		_, err := New(w)
		return err
	}
	if err := with(strings.Repeat("x", maxSuffix), func(*Vocabulary) {}); err != nil {
		t.Errorf("the longest suffix: %v", err)
	}
	if err := with(strings.Repeat("x", maxSuffix+1), func(*Vocabulary) {}); err == nil {
		t.Error("a longer suffix is accepted")
	}
	for want, change := range map[string]func(v *Vocabulary){
		"of a BPE model":          func(v *Vocabulary) { v.Model = WordPiece },
		"without a pre-tokenizer": func(v *Vocabulary) { v.Pre = PreNone },
		"a symbol or merge":       func(v *Vocabulary) { v.Tokens[3].Text = "other" },
	} {
		if err := with("</w>", change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// FuzzSentenceModel: any bytes are read or refused.
func FuzzSentenceModel(f *testing.F) {
	files, _, _ := jointFiles(f, "siglip")
	f.Add(files.Pieces)
	f.Add(files.Pieces[:100])
	f.Add(piece("a", Normal))
	f.Fuzz(func(t *testing.T, data []byte) {
		one := files
		one.Pieces = data
		if tok, err := FromTransformers(one); err == nil {
			tok.Encode("a photo of a cat", Options{Add: true})
		}
	})
}
