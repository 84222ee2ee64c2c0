package sentence

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"mm-abi.org/mm/onnx"
)

// Pooling is how the states of a text become one vector.
type Pooling struct {
	// Modes are joined in the order cls, max, mean, mean_sqrt, weighted, last.
	Modes     []string
	Dense     []Dense
	Normalize bool
}

// Dense is a layer after the pooling.
type Dense struct {
	In, Out    int
	Activation string // "", tanh, relu, gelu
	Weights    Weights
	Bias       bool
}

// ReadPooling reads the parts of a model of sentence-transformers: modules.json, and
// the files that it names, through read, which returns nil for a missing file, and
// weights, which reads the tensors of a folder. A model without modules.json has the
// mean of its states.
func ReadPooling(read func(name string) ([]byte, error), weights func(folder string) (Weights, error)) (p Pooling, err error) {
	data, err := read("modules.json")
	if err != nil {
		return p, err
	}
	if data == nil {
		return Pooling{Modes: []string{"mean"}}, nil
	}
	var parts []struct{ Path, Type string }
	if err := json.Unmarshal(data, &parts); err != nil {
		return p, fmt.Errorf("modules.json: %w", err)
	}
	for i, part := range parts {
		kind := part.Type[strings.LastIndex(part.Type, ".")+1:]
		if part.Path != "" && (path.IsAbs(part.Path) || strings.Contains(part.Path, `\`) || path.Clean(part.Path) != part.Path || strings.HasPrefix(part.Path, "..")) {
			return p, fmt.Errorf("modules.json: path %.80q", part.Path)
		}
		switch {
		case kind == "Transformer" && i == 0:
			if part.Path != "" {
				return p, fmt.Errorf("unsupported modules.json: the transformer is in %.80q, want the folder itself", part.Path)
			}
			continue
		case kind == "Pooling" && i == 1:
			data, err := read(path.Join(part.Path, "config.json"))
			if err == nil {
				p.Modes, err = poolingModes(data)
			}
			if err != nil {
				return p, fmt.Errorf("%s: %w", path.Join(part.Path, "config.json"), err)
			}
		case kind == "Normalize" && p.Modes != nil:
			p.Normalize = true
		case kind == "Dense" && p.Modes != nil && !p.Normalize:
			d, err := readDense(part.Path, read, weights)
			if err != nil {
				return p, fmt.Errorf("%s: %w", part.Path, err)
			}
			p.Dense = append(p.Dense, d)
		case kind == "Dropout":
		default:
			return p, fmt.Errorf("unsupported modules.json: part %d is %.80q", i, part.Type)
		}
	}
	if p.Modes == nil {
		return p, errors.New("modules.json: no pooling")
	}
	return p, nil
}

// poolingModes reads the config.json of a pooling: flags, or a name.
func poolingModes(data []byte) (modes []string, err error) {
	if data == nil {
		return nil, errors.New("missing file")
	}
	var c struct {
		CLS      bool  `json:"pooling_mode_cls_token"`
		Max      bool  `json:"pooling_mode_max_tokens"`
		Mean     *bool `json:"pooling_mode_mean_tokens"`
		Sqrt     bool  `json:"pooling_mode_mean_sqrt_len_tokens"`
		Weighted bool  `json:"pooling_mode_weightedmean_tokens"`
		Last     bool  `json:"pooling_mode_lasttoken"`
		Mode     any   `json:"pooling_mode"`
		Prompt   *bool `json:"include_prompt"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, err
	}
	if c.Prompt != nil && !*c.Prompt {
		return nil, errors.New("unsupported include_prompt false")
	}
	on := map[string]bool{"cls": c.CLS, "max": c.Max, "mean": c.Mean != nil && *c.Mean, "mean_sqrt": c.Sqrt, "weighted": c.Weighted, "last": c.Last}
	other := map[string]string{"mean_sqrt_len_tokens": "mean_sqrt", "weightedmean": "weighted", "lasttoken": "last", "cls": "cls", "max": "max", "mean": "mean"}
	var named []any
	switch mode := c.Mode.(type) {
	case nil:
	case string:
		named = []any{mode}
	case []any:
		named = mode
	default:
		return nil, fmt.Errorf("pooling_mode %v", mode)
	}
	for _, name := range named {
		mode, ok := other[fmt.Sprint(name)]
		if !ok {
			return nil, fmt.Errorf("unsupported pooling_mode %v", name)
		}
		on[mode] = true
	}
	for _, mode := range []string{"cls", "max", "mean", "mean_sqrt", "weighted", "last"} {
		if on[mode] {
			modes = append(modes, mode)
		}
	}
	if len(modes) == 0 {
		return nil, errors.New("no pooling mode")
	}
	return modes, nil
}

// readDense reads a layer after the pooling.
func readDense(folder string, read func(string) ([]byte, error), weights func(string) (Weights, error)) (d Dense, err error) {
	data, err := read(path.Join(folder, "config.json"))
	if err != nil {
		return d, err
	}
	var c struct {
		In         int    `json:"in_features"`
		Out        int    `json:"out_features"`
		Bias       *bool  `json:"bias"`
		Activation string `json:"activation_function"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return d, fmt.Errorf("config.json: %w", err)
	}
	d.In, d.Out, d.Bias = c.In, c.Out, c.Bias == nil || *c.Bias
	switch kind := c.Activation[strings.LastIndex(c.Activation, ".")+1:]; kind {
	case "Identity":
	case "Tanh", "ReLU", "GELU":
		d.Activation = strings.ToLower(kind)
	case "":
		d.Activation = "tanh"
	default:
		return d, fmt.Errorf("unsupported activation_function %.80q", c.Activation)
	}
	if c.In < 1 || c.In > 8*maxWidth || c.Out < 1 || c.Out > maxWidth {
		return d, fmt.Errorf("layer of %d × %d", c.In, c.Out)
	}
	d.Weights, err = weights(folder)
	return d, err
}

// Size returns the numbers of a vector.
func (p Pooling) Size(width int) int {
	if n := len(p.Dense); n > 0 {
		return p.Dense[n-1].Out
	}
	return width * len(p.Modes)
}

// pool writes the vector of each text from states [N,T,C] and the mask [N,T] as
// numbers.
func (w *writer) pool(p Pooling, x, mask string) string {
	g := w.g
	var parts []string
	each := w.along("Unsqueeze", mask, "mask.each", 2)
	sum := func(name, weights string) string {
		return w.along("ReduceSum", g.Add("Mul", []string{x, weights}, name+".shares"), name+".sum", 1, onnx.Int("keepdims", 0))
	}
	count := func() string {
		n := w.along("ReduceSum", mask, "mask.count", 1, onnx.Int("keepdims", 1))
		return g.Add("Max", []string{n, w.number("least", 1e-9)}, "mask.least")
	}
	for _, mode := range p.Modes {
		at := "pool." + mode
		switch mode {
		case "cls":
			parts = append(parts, w.at(x, at))
		case "max":
			away := g.Add("Mul", []string{g.Add("Sub", []string{w.number("unit", 1), each}, at+".padding"), w.number("never", -1e9)}, at+".away")
			parts = append(parts, w.along("ReduceMax", g.Add("Add", []string{x, away}, at+".kept"), at, 1, onnx.Int("keepdims", 0)))
		case "mean":
			parts = append(parts, g.Add("Div", []string{sum(at, each), w.once("mask.least", count)}, at))
		case "mean_sqrt":
			parts = append(parts, g.Add("Div", []string{sum(at, each), g.Add("Sqrt", []string{w.once("mask.least", count)}, at+".root")}, at))
		case "weighted":
			order := g.Add("CumSum", []string{mask, w.scalar("along", 1)}, at+".order")
			order = g.Add("Mul", []string{order, mask}, at+".weights")
			total := g.Add("Max", []string{w.along("ReduceSum", order, at+".total", 1, onnx.Int("keepdims", 1)), w.number("least", 1e-9)}, at+".least")
			parts = append(parts, g.Add("Div", []string{sum(at, w.along("Unsqueeze", order, at+".each", 2)), total}, at))
		case "last": // the position whose next one is padding
			next := g.Add("Pad", []string{mask, w.ints("shift", 0, -1, 0, 1)}, at+".next")
			parts = append(parts, sum(at, w.along("Unsqueeze", g.Add("Sub", []string{mask, next}, at+".end"), at+".each", 2)))
		}
	}
	y := parts[0]
	if len(parts) > 1 {
		y = g.Add("Concat", parts, "pooled", onnx.Int("axis", 1))
	}
	for i, d := range p.Dense {
		at := fmt.Sprintf("dense.%d.", i)
		y = w.dense(at, y, d)
	}
	if p.Normalize {
		y = w.unit(y)
	}
	return y
}

// unit writes vectors of length 1.
func (w *writer) unit(y string) string {
	length := w.along("ReduceL2", y, "length", 1, onnx.Int("keepdims", 1))
	return w.g.Add("Div", []string{y, w.g.Add("Max", []string{length, w.number("short", 1e-12)}, "length.least")}, "normalized")
}

// at returns the state of the first position.
func (w *writer) at(x, name string) string {
	first := w.g.Add("Slice", []string{x, w.ints("zero", 0), w.ints("one", 1), w.ints("one", 1)}, name+".first")
	return w.along("Squeeze", first, name, 1)
}
