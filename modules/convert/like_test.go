package convert_test

import (
	"errors"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/convert"
	"mm-abi.org/mm/onnx"
)

// model returns a model with these inputs and outputs.
func model(in, out []onnx.Value) *onnx.Model {
	return &onnx.Model{Graph: onnx.Graph{Inputs: in, Outputs: out}}
}

// A preset completes facts that the file does not contain, by the names of the file's ports. A
// file of another family is refused, flags win.
func TestLike(t *testing.T) {
	f := onnx.FLOAT
	images := []onnx.Value{value("pic", f, open("N"), size(3), open("H"), open("W"))}
	gray := []onnx.Value{value("pic", f, open("N"), size(1), open("H"), open("W"))}
	sound := []onnx.Value{value("input", f, open(""), open("")), value("state", f, size(2), open(""), size(128)), value("sr", onnx.INT64)}
	old := []onnx.Value{value("input", f, open(""), open("")), value("h", f, size(2), open(""), size(64)), value("c", f, size(2), open(""), size(64)), value("sr", onnx.INT64)}
	of := func(rank int) []onnx.Value { return []onnx.Value{value("y", f, make([]onnx.Dim, rank)...)} }
	voiced := append(of(2), value("stateN", f, size(2), open(""), size(128)))
	before := append(of(2), value("hn", f, size(2)), value("cn", f, size(2)))
	for _, c := range []struct {
		like     string
		model    *onnx.Model
		with     []string
		want     string // of the error; empty: none
		modality abi.Modality
	}{
		{"ppocr-rec", model(images, of(3)), []string{"d/keys.txt"}, "", abi.Image},
		{"ppocr-rec", model(images, of(3)), nil, "missing list of characters", ""},
		{"ppocr-rec", model(images, of(4)), []string{"keys.txt"}, "the model is not like ppocr-rec: want an input [N, 3, 48, W]", ""},
		{"ppocr-rec", model(gray, of(3)), []string{"keys.txt"}, "not like ppocr-rec", ""},
		{"ppocr-det", model(images, of(4)), nil, "", abi.Image},
		{"ppocr-det", model(images, of(2)), nil, "not like ppocr-det", ""},
		{"ppocr-cls", model(images, of(2)), nil, "", abi.Image},
		{"ppocr-cls", model(sound, voiced), nil, "not like ppocr-cls", ""},
		{"imagenet", model(images, of(2)), []string{"classes.txt"}, "", abi.Image},
		{"imagenet", model(images, of(3)), nil, "not like imagenet", ""},
		{"silero-vad", model(sound, voiced), nil, "", abi.Audio},
		{"silero-vad", model(sound, of(2)), nil, "not like silero-vad", ""},
		{"silero-vad", model(old, before), nil, "not like silero-vad", ""},
		{"silero-vad", model(sound[:2], voiced), nil, "not like silero-vad", ""},
		{"silero-vad-4", model(old, before), nil, "", abi.Audio},
		{"silero-vad-4", model(sound, voiced), nil, "not like silero-vad-4", ""},
		{"ppocr-det", model(nil, nil), nil, "not like ppocr-det", ""},
		{"ppocr", model(images, of(3)), nil, `unknown model "ppocr"`, ""},
	} {
		fn, license, err := convert.Like(c.like, c.model, convert.Function{With: c.with})
		var like *convert.LikeError
		if c.want != "" {
			if !errors.As(err, &like) || !strings.Contains(err.Error(), c.want) || like.Hint() == "" {
				t.Errorf("%s: %v, want %q", c.like, err, c.want)
			}
			continue
		}
		if err != nil || fn.Modality != c.modality || (license == "") != (c.like == "imagenet") {
			t.Errorf("%s: %s, license %q, %v", c.like, fn.Modality, license, err)
		}
		if _, ok := fn.Preprocess[c.model.Graph.Inputs[0].Name]; !ok {
			t.Errorf("%s: no preprocessing of the input: %v", c.like, fn.Preprocess)
		}
	}
	fn, _, err := convert.Like("ppocr-rec", model(images, of(3)), convert.Function{
		With: []string{"d/keys.txt"}, Modality: abi.Video, Preprocess: modules.Preprocess{"pic": preprocess.Spec{Scale: 1}},
	})
	if err != nil || fn.Modality != abi.Video || fn.Preprocess["pic"].Scale != 1 || fn.Postprocess["y"].CTC.Labels != "keys.txt" {
		t.Errorf("flags do not win: %+v, %v", fn, err)
	}
	own := map[string]modules.State{"state": {From: "y"}}
	fn, _, err = convert.Like("silero-vad", model(sound, voiced), convert.Function{State: own, Constants: map[string]modules.Constant{"sr": {Value: 8000}}, Postprocess: map[string]modules.Postprocess{"y": {}}})
	if err != nil || fn.State["state"].From != "y" || fn.Constants["sr"].Value != 8000 || fn.Postprocess["y"].Segments != nil {
		t.Errorf("flags do not win: %+v, %v", fn, err)
	}
}
