package convert

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
)

// Preset describes a family of ONNX models: the description that their files do not contain.
type Preset struct {
	Name, About string
	License     string

	fits  func(in, out onnx.Type) bool // the first input and output
	shape string                       // of both, for errors
	fill  func(p ports, with []string) (Function, error)
}

// ports are the names of the first input and output of a model.
type ports struct{ in, out string }

// LikeError reports a preset that is unknown or does not fit.
type LikeError struct{ Text, Fix string }

// Error implements error.
func (e *LikeError) Error() string { return e.Text }

// Hint implements the interface of hints in internal/diag.
func (e *LikeError) Hint() string { return e.Fix }

// pixel is 1/255, the scale of images from 0 to 1.
const pixel = 0.00392156862745098

// Presets returns the families.
func Presets() []Preset {
	return []Preset{
		{Name: "ppocr-rec", About: "PP-OCR recognition: a line of text; --with the list of characters", License: "Apache-2.0",
			fits: func(in, out onnx.Type) bool { return image(in) && len(out.Dims) == 3 }, shape: "an input [N, 3, 48, W] and an output [N, T, classes]",
			fill: func(p ports, with []string) (Function, error) {
				labels, err := labelFile(with, "ppocr_keys_v1.txt")
				return picture(p, preprocess.Spec{Picture: preprocess.Picture{Height: 48, MaxWidth: 3200, Color: "bgr"}, Mean: []float64{0.5}, Std: []float64{0.5}},
					modules.Postprocess{CTC: &modules.CTC{Labels: labels, Space: true}}), err
			}},
		{Name: "ppocr-det", About: "PP-OCR detection: a map of the probability of text", License: "Apache-2.0",
			fits: func(in, out onnx.Type) bool { return image(in) && len(out.Dims) == 4 }, shape: "an input [N, 3, H, W] and an output [N, 1, H, W]",
			fill: func(p ports, _ []string) (Function, error) {
				fn := picture(p, preprocess.Spec{Picture: preprocess.Picture{MultipleOf: 32, Color: "bgr"}, Mean: []float64{0.485, 0.456, 0.406}, Std: []float64{0.229, 0.224, 0.225}}, modules.Postprocess{})
				fn.Postprocess = nil
				return fn, nil
			}},
		{Name: "ppocr-cls", About: "PP-OCR angle: class 0 is upright, class 1 is turned by 180 degrees", License: "Apache-2.0",
			fits: func(in, out onnx.Type) bool { return image(in) && len(out.Dims) == 2 }, shape: "an input [N, 3, H, W] and an output [N, 2]",
			fill: func(p ports, _ []string) (Function, error) {
				return picture(p, preprocess.Spec{Picture: preprocess.Picture{Height: 48, MinWidth: 192, MaxWidth: 192, Color: "bgr"}, Mean: []float64{0.5}, Std: []float64{0.5}},
					modules.Postprocess{Labels: &modules.Labels{Top: 2}}), nil
			}},
		{Name: "imagenet", About: "an image classifier with torchvision's preprocessing; --with the labels", License: "",
			fits: func(in, out onnx.Type) bool { return image(in) && len(out.Dims) == 2 }, shape: "an input [N, 3, H, W] and an output [N, classes]",
			fill: func(p ports, with []string) (Function, error) {
				labels := &modules.Labels{Softmax: true}
				if len(with) > 0 {
					labels.File = filepath.Base(with[0])
				}
				return picture(p, preprocess.Spec{Picture: preprocess.Picture{ShortestEdge: 256, Crop: []int{224, 224}}, Mean: []float64{0.485, 0.456, 0.406}, Std: []float64{0.229, 0.224, 0.225}},
					modules.Postprocess{Labels: labels}), nil
			}},
		{Name: "silero-vad", About: "Silero VAD 5 and 6: spans of speech", License: "MIT",
			fits: func(in, out onnx.Type) bool { return len(in.Dims) == 2 && len(out.Dims) == 2 }, shape: "an input [N, 576] and an output [N, 1], with state and sr",
			fill: func(p ports, _ []string) (Function, error) {
				return voice(p, 64, map[string]modules.State{"state": {From: "stateN"}}), nil
			}},
		{Name: "silero-vad-4", About: "Silero VAD 4 and older, with the states h and c: spans of speech", License: "MIT",
			fits: func(in, out onnx.Type) bool { return len(in.Dims) == 2 && len(out.Dims) == 2 }, shape: "an input [N, 512] and an output [N, 1], with h, c and sr",
			fill: func(p ports, _ []string) (Function, error) {
				return voice(p, 0, map[string]modules.State{"h": {From: "hn"}, "c": {From: "cn"}}), nil
			}},
	}
}

// picture describes a function on images from 0 to 1.
func picture(p ports, spec preprocess.Spec, post modules.Postprocess) Function {
	spec.Scale = pixel
	return Function{Modality: abi.Image, Preprocess: modules.Preprocess{p.in: spec}, Postprocess: map[string]modules.Postprocess{p.out: post}}
}

// voice describes a detector of speech.
func voice(p ports, context int, state map[string]modules.State) Function {
	spec := preprocess.Spec{Sound: preprocess.Sound{SampleRate: 16000, Chunk: 512, Context: context}}
	return Function{
		Modality: abi.Audio, Preprocess: modules.Preprocess{p.in: spec}, State: state, Constants: map[string]modules.Constant{"sr": {Value: 16000}},
		Postprocess: map[string]modules.Postprocess{p.out: {Segments: &modules.Segments{MinMS: 60, MinSilenceMS: 100}}},
	}
}

// image reports whether an input is a batch of images of three channels.
func image(t onnx.Type) bool {
	return len(t.Dims) == 4 && (t.Dims[1].Value == 3 || t.Dims[1].Value <= 0)
}

// labelFile returns the base name of the file of labels, the first of --with.
func labelFile(with []string, usual string) (string, error) {
	if len(with) == 0 {
		return "", &LikeError{"missing list of characters", "--with " + usual + " copies it next to the model"}
	}
	return filepath.Base(with[0]), nil
}

// Like completes fn by the preset of a name; values that fn has already win. The license is
// the preset's.
func Like(name string, model *onnx.Model, fn Function) (Function, string, error) {
	all := Presets()
	i := slices.IndexFunc(all, func(p Preset) bool { return p.Name == name })
	if i < 0 {
		var names []string
		for _, p := range all {
			names = append(names, p.Name)
		}
		return fn, "", &LikeError{fmt.Sprintf("unknown model %q", name), diag.Suggest(name, names, "want one of "+strings.Join(names, ", "))}
	}
	p, inputs, outputs := all[i], model.Inputs(), model.Graph.Outputs
	wrong := &LikeError{fmt.Sprintf("the model is not like %s: want %s", name, p.shape), "mm inspect shows its inputs and outputs"}
	if len(inputs) == 0 || len(outputs) == 0 || !p.fits(inputs[0].Type, outputs[0].Type) {
		return fn, "", wrong
	}
	preset, err := p.fill(ports{inputs[0].Name, outputs[0].Name}, fn.With)
	if err != nil {
		return fn, "", err
	}
	names := map[string]bool{}
	for _, v := range slices.Concat(inputs, outputs) {
		names[v.Name] = true
	}
	for in, s := range preset.State {
		if !names[in] || !names[s.From] {
			return fn, "", wrong
		}
	}
	for in := range preset.Constants {
		if !names[in] {
			return fn, "", wrong
		}
	}
	fn.Modality = or(fn.Modality, preset.Modality)
	if len(fn.Preprocess) == 0 {
		fn.Preprocess = preset.Preprocess
	}
	if len(fn.State) == 0 {
		fn.State = preset.State
	}
	if len(fn.Constants) == 0 {
		fn.Constants = preset.Constants
	}
	if len(fn.Postprocess) == 0 {
		fn.Postprocess = preset.Postprocess
	}
	return fn, p.License, nil
}
