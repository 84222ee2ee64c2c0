package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"

	"mm-abi.org/mm/core/hf"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/ort"
)

// Names of the files of Moonshine as its authors ship it, in ONNX Runtime's format and
// without settings.
const (
	ortEncoder = "encoder_model.ort"
	ortDecoder = "decoder_model_merged.ort"
	ortWords   = "tokenizer.bin"
)

// Limits of these files.
const (
	maxOrt   = 1 << 30
	maxWords = 1 << 23
)

// IsOrt reports whether a folder holds Moonshine's files in ONNX Runtime's format.
func IsOrt(folder string) bool {
	for _, name := range []string{ortEncoder, ortDecoder, ortWords} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return false
		}
	}
	return true
}

// ortMoonshine reads a folder of Moonshine's files in ONNX Runtime's format. Its ids
// and lengths are those of its authors' library.
func ortMoonshine(folder string) (*encdec, error) {
	data, err := fsx.ReadFile(filepath.Join(folder, ortWords), maxWords)
	if err != nil {
		return nil, err
	}
	words, err := pieces(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ortWords, err)
	}
	abs, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	e := &encdec{folder: folder, family: "moonshine", ort: true, h: &hf.Encoder{Tokenizer: words, Card: hf.Card{Name: "moonshine-" + filepath.Base(abs)}}}
	e.loop = modules.Loop{From: modules.LoopAudio, Tokenizer: tokenizerFile, Start: []int64{1}, Stop: []int64{2}, MaxIDs: 194, PerSecond: 6.5, Window: 30}
	e.pre = modules.Preprocess{"input_values": preprocess.Spec{DType: "fp32", Sound: preprocess.Sound{SampleRate: 16000}}}
	return e, nil
}

// pieces reads a list of tokens: the length of each, in one byte or in two, and its
// text. Tokens of one byte that are not text are bytes.
func pieces(data []byte) (*tokenizer.Tokenizer, error) {
	type piece = [2]any // text and score
	var list []piece
	added := []map[string]any{} // that are not text
	for len(data) > 0 {
		n, head := int(data[0]), 1
		if n >= 128 {
			if len(data) < 2 {
				return nil, io.ErrUnexpectedEOF
			}
			n, head = int(data[1])*128+n-128, 2
		}
		if n > len(data)-head {
			return nil, io.ErrUnexpectedEOF
		}
		text := string(data[head : head+n])
		if i := len(list); n == 1 && i >= 3 && i < 3+256 {
			text = fmt.Sprintf("<0x%02X>", text[0])
		}
		if !utf8.ValidString(text) {
			return nil, fmt.Errorf("token %d is not UTF-8", len(list))
		}
		if text == "" { // an id without a token
			text = fmt.Sprintf("<empty_%d>", len(list))
		}
		if n == 0 || len(list) < 3 {
			added = append(added, map[string]any{"id": len(list), "content": text, "special": true})
		}
		list = append(list, piece{text, -float64(len(list))})
		data = data[head+n:]
	}
	if len(list) < 3 {
		return nil, errors.New("less than 3 tokens")
	}
	words := map[string]any{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}
	file, err := json.Marshal(map[string]any{
		"added_tokens": added, "pre_tokenizer": words, "decoder": words,
		"model": map[string]any{"type": "Unigram", "unk_id": 0, "byte_fallback": true, "vocab": list},
	})
	if err != nil {
		return nil, err
	}
	return tokenizer.FromTransformers(tokenizer.Transformers{Tokenizer: file, Config: []byte(`{"tokenizer_class": "PreTrainedTokenizerFast"}`)})
}

// unpacked writes the files in ONNX Runtime's format as ONNX and returns the name of
// the encoder's.
func (e *encdec) unpacked(ctx context.Context, d *fsx.Dir, m *modules.Manifest) (string, []modules.File, error) {
	var files []modules.File
	for _, part := range [][2]string{{ortEncoder, encoderFile}, {ortDecoder, mergedFile}} {
		data, err := fsx.ReadFile(filepath.Join(e.folder, part[0]), maxOrt)
		if err != nil {
			return "", nil, err
		}
		graph, err := ort.Open(data)
		if err != nil {
			return "", nil, fmt.Errorf("reading %s: %w", part[0], err)
		}
		unshare(graph)
		if part[1] == encoderFile {
			if err := e.describe(graph, m); err != nil {
				return "", nil, err
			}
		}
		file, err := WriteFile(d, part[1], func(w io.Writer) error {
			_, err := onnx.Write(fsx.Writer{Context: ctx, W: w}, graph)
			return err
		})
		if err != nil {
			return "", nil, err
		}
		files = append(files, file)
	}
	e.loop.Past = mergedFile
	return encoderFile, files, nil
}

// unshare names the length of the mask of Moonshine's decoder, which counts samples, by
// a name that the number of states does not have, and reports whether it did.
func unshare(m *onnx.Model) bool {
	var states string
	for _, v := range m.Graph.Inputs {
		if v.Name == "encoder_hidden_states" && len(v.Type.Dims) == 3 {
			states = v.Type.Dims[1].Param
		}
	}
	for i := range m.Graph.Inputs {
		v := &m.Graph.Inputs[i]
		if v.Name == "encoder_attention_mask" && len(v.Type.Dims) == 2 && states != "" && v.Type.Dims[1].Param == states {
			v.Type.Dims = []onnx.Dim{v.Type.Dims[0], {Value: onnx.Unknown, Param: "samples"}}
			return true
		}
	}
	return false
}
