package convert

import (
	"strings"
	"testing"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/onnx"
)

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
