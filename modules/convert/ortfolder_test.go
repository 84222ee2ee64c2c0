package convert

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx"
)

// Files of Moonshine's folder are read up to their limits.
func TestOrtLimits(t *testing.T) {
	for name, limit := range map[string]int64{ortWords: maxWords, ortEncoder: maxOrt} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		for more, ok := range map[int64]bool{0: name == ortWords, 1: false} {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, limit+more); err != nil {
				t.Fatal(err)
			}
			if name == ortEncoder && more == 0 {
				continue // a gigabyte in memory
			}
			_, err := fsx.ReadFile(path, limit)
			if (err == nil) != ok {
				t.Errorf("%s of %d bytes: %v", name, limit+more, err)
			}
			if name == ortWords && !ok {
				if _, err := ortMoonshine(dir); err == nil || errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s of %d bytes: %v", name, limit+more, err)
				}
			}
		}
	}
}

// A list of pieces has lengths of one or two bytes, single bytes and empty entries.
func TestPieces(t *testing.T) {
	list := []byte("\x05<unk>\x03<s>\x04</s>")
	for b := range 256 {
		list = append(list, 1, byte(b))
	}
	long := strings.Repeat("a", 130)
	list = append(list, "\x04\xe2\x96\x81b\x00\x82\x01"+long...)
	words, err := pieces(list)
	if err != nil {
		t.Fatal(err)
	}
	if got := words.Decode([]int32{1, 259, 260, 3 + 0xc3, 3 + 0xa9, 261, 2}, tokenizer.DecodeOptions{}); got != "bé"+long {
		t.Errorf("got %q", got)
	}
	for _, bad := range []string{"\x05<unk", "\x80", "\x01a", "\x01a\x01b\x02\xff\xfe"} {
		if _, err := pieces([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestUnshare(t *testing.T) {
	m := onnx.New("g", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("encoder_attention_mask", onnx.INT64, 1, "n"), onnx.TensorValue("encoder_hidden_states", onnx.FLOAT, 1, "n", 8)}
	if !unshare(m) || m.Graph.Inputs[0].Type.Dims[1].Param != "samples" || unshare(m) {
		t.Error(m.Graph.Inputs)
	}
}
