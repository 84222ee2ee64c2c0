package adapter

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/internal/fsx"
)

// config holds the relevant fields of adapter_config.json.
type config struct {
	Type          string             `json:"peft_type"`
	Alpha         float64            `json:"lora_alpha"`
	RSLoRA        bool               `json:"use_rslora"`
	FanInFanOut   bool               `json:"fan_in_fan_out"`
	Bias          string             `json:"bias"`
	AlphaPattern  map[string]float64 `json:"alpha_pattern"`
	ModulesToSave []string           `json:"modules_to_save"`
	Invocation    []int              `json:"alora_invocation_tokens"`
	DoRA          bool               `json:"use_dora"`
	Init          any                `json:"init_lora_weights"`
	LoRABias      bool               `json:"lora_bias"`
	QALoRA        bool               `json:"use_qalora"`
	Replication   []any              `json:"layer_replication"`
	Parameters    []string           `json:"target_parameters"`
	TokenIndices  any                `json:"trainable_token_indices"`
	Arrow         any                `json:"arrow_config"`
	BDLoRA        any                `json:"use_bdlora"`
	KaSA          any                `json:"kasa_config"`
	VeLoRA        any                `json:"velora_config"`
	MonteCLoRA    any                `json:"monteclora_config"`
}

// changed lists the ways of initialization that change the weights of the base,
// so that the adapter does not fit the base as published.
var changed = []string{"pissa", "olora", "corda", "loftq", "lora_ga"}

// check refuses unsupported settings.
func (c config) check() error {
	switch {
	case c.Type != "LORA":
		return fmt.Errorf("adapter_config.json: bad peft_type: got %q, want LORA", c.Type)
	case !(c.Alpha > 0) || math.IsInf(c.Alpha, 0):
		return fmt.Errorf("adapter_config.json: bad lora_alpha %v", c.Alpha)
	case c.FanInFanOut:
		return errors.New("adapter_config.json: fan_in_fan_out is not supported")
	case c.Bias != "" && c.Bias != "none":
		return fmt.Errorf("adapter_config.json: trained biases (%q) are not supported", c.Bias)
	case len(c.Invocation) > 0:
		return errors.New("adapter_config.json: activated LoRA is not supported")
	case len(c.ModulesToSave) > 0:
		return errors.New("adapter_config.json: modules_to_save is not supported")
	case c.LoRABias:
		return errors.New("adapter_config.json: lora_bias is not supported")
	case c.QALoRA:
		return errors.New("adapter_config.json: use_qalora is not supported")
	case len(c.Replication) > 0:
		return errors.New("adapter_config.json: layer_replication is not supported")
	case len(c.Parameters) > 0:
		return errors.New("adapter_config.json: target_parameters is not supported")
	}
	for _, f := range []struct {
		key string
		set any
	}{{"trainable_token_indices", c.TokenIndices}, {"arrow_config", c.Arrow}, {"use_bdlora", c.BDLoRA}, {"kasa_config", c.KaSA}, {"velora_config", c.VeLoRA}, {"monteclora_config", c.MonteCLoRA}} {
		if f.set != nil && f.set != false {
			return fmt.Errorf("adapter_config.json: %s is not supported", f.key)
		}
	}
	if kind, ok := c.Init.(string); ok {
		for _, way := range changed {
			if strings.HasPrefix(strings.ToLower(kind), way) {
				return fmt.Errorf("adapter_config.json: init_lora_weights %q changes the base: save it with path_initial_model_for_weight_conversion", kind)
			}
		}
	}
	return c.checkPatterns()
}

// checkPatterns refuses alphas that are not positive and patterns that are not
// regular expressions.
func (c config) checkPatterns() error {
	for _, key := range slices.Sorted(maps.Keys(c.AlphaPattern)) {
		if a := c.AlphaPattern[key]; !(a > 0) || math.IsInf(a, 0) {
			return fmt.Errorf("adapter_config.json: alpha_pattern: bad alpha %v of %q", a, key)
		}
		if len(key) > maxPattern {
			return fmt.Errorf("adapter_config.json: alpha_pattern: pattern longer than %d bytes", maxPattern)
		}
		if _, err := pattern(key); err != nil {
			return fmt.Errorf("adapter_config.json: alpha_pattern: unsupported pattern %q: %w", key, err)
		}
	}
	return nil
}

// pattern compiles a key of a pattern as PEFT does: it matches the end of a
// module's name.
func pattern(key string) (*regexp.Regexp, error) { return regexp.Compile(`^(?:.*\.)?(?:` + key + `)$`) }

// alpha returns the alpha of a module. Keys that match with different alphas are
// refused: PEFT takes the first in the file.
func (c config) alpha(module string) (float64, error) {
	found, alpha := "", c.Alpha
	for _, key := range slices.Sorted(maps.Keys(c.AlphaPattern)) {
		re, err := pattern(key)
		if err != nil {
			return 0, err
		}
		if !re.MatchString(module) {
			continue
		}
		if found != "" && c.AlphaPattern[key] != alpha {
			return 0, fmt.Errorf("alpha_pattern: %q and %q both match %s", found, key, module)
		}
		found, alpha = key, c.AlphaPattern[key]
	}
	return alpha, nil
}

// openPEFT reads a Hugging Face PEFT folder.
func openPEFT(dir string, m Model) (Adapter, error) {
	c, err := readConfig(configPath(dir))
	if err != nil {
		return nil, err
	}
	f, err := safetensors.Open(weightsPath(dir))
	if err != nil {
		return nil, err
	}
	a, err := fromPEFT(c, f, m)
	return a, errors.Join(err, f.Close())
}

func readConfig(path string) (config, error) {
	f, err := fsx.OpenRegular(path)
	if err != nil {
		return config{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return config{}, err
	}
	if len(b) > maxConfig {
		return config{}, fmt.Errorf("adapter_config.json exceeds %d bytes", maxConfig)
	}
	var c config
	if err := json.Unmarshal(b, &c); err != nil {
		return config{}, fmt.Errorf("adapter_config.json: %w", err)
	}
	return c, c.check()
}

// peftName parses the names of PEFT.
var peftName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^base_model\.model\.(?:model\.layers\.(\d{1,3})\.(?:self_attn|mlp)\.(q|k|v|o|gate|up|down)_proj|(lm_head))\.(lora_A\.weight|lora_B\.weight|lora_magnitude_vector(?:\.weight)?)$`)
})

// ggufNames maps PEFT's projections and suffixes.
var (
	ggufParts = map[string]string{
		"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output",
		"gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down",
	}
	ggufSuffixes = map[string]string{
		"lora_A.weight": suffixA, "lora_B.weight": suffixB,
		"lora_magnitude_vector": suffixMagnitude, "lora_magnitude_vector.weight": suffixMagnitude,
	}
)

func fromPEFT(c config, f *safetensors.File, m Model) (Adapter, error) {
	p := parts{}
	for _, t := range f.Tensors {
		if t.Name == headCopy {
			if err := m.same(t); err != nil {
				return nil, err
			}
			continue
		}
		match := peftName().FindStringSubmatch(t.Name)
		if match == nil {
			return nil, fmt.Errorf("tensor %s is not adaptable", t.Name)
		}
		layer, part, head, suffix := match[1], match[2], match[3], ggufSuffixes[match[4]]
		v, err := floats(t)
		if err != nil {
			return nil, err
		}
		if m.Interleaved && suffix != suffixA {
			switch part {
			case "q":
				v, err = interleave(v, m.Heads, m.HeadDim, t)
			case "k":
				v, err = interleave(v, m.KVHeads, m.HeadDim, t)
			}
			if err != nil {
				return nil, err
			}
		}
		name := "output.weight"
		if head == "" {
			name = "blk." + layer + "." + ggufParts[part] + ".weight"
		}
		if err := p.add(name+suffix, t.Shape, v); err != nil {
			return nil, err
		}
	}
	if dora := p.dora(); dora != c.DoRA {
		return nil, fmt.Errorf("use_dora is %v, but the file has magnitudes: %v", c.DoRA, dora)
	}
	return p.join(func(name string, rank int) (float32, error) {
		place, err := module(name)
		if err != nil {
			return 0, err
		}
		alpha, err := c.alpha(place)
		if c.RSLoRA {
			return float32(alpha / math.Sqrt(float64(rank))), err
		}
		return float32(alpha / float64(rank)), err
	})
}

// headCopy is the name under which PEFT saves an adapted head.
const headCopy = "base_model.model.lm_head.base_layer.weight"

// same compares a copy of the head with the model's.
func (m Model) same(t safetensors.Tensor) error {
	if m.Same == nil || len(t.Shape) != 2 {
		return fmt.Errorf("tensor %s is a copy of the head that cannot be compared: convert the adapter with mm module import hf --core", t.Name)
	}
	v, err := floats(t)
	if err != nil {
		return err
	}
	return m.Same("output.weight", t.Shape[0], t.Shape[1], v)
}

func floats(t safetensors.Tensor) ([]float32, error) {
	typ, ok := t.DType.Type()
	if !ok || typ.BlockSize() != 1 || !quant.CanDequantize(typ) {
		return nil, fmt.Errorf("tensor %s: got type %s, want plain numbers", t.Name, t.DType)
	}
	v := make([]float32, len(t.Data)/typ.BlockBytes())
	quant.Dequantize(v, t.Data, typ)
	return v, nil
}

// interleave reorders rows from Hugging Face's order, in which a head's
// dimensions i and i+D/2 are rotated together, to GGUF's order for llama, in
// which 2i and 2i+1 are.
func interleave(v []float32, heads, dim int, t safetensors.Tensor) ([]float32, error) {
	if len(t.Shape) == 0 || t.Shape[0] != heads*dim || dim%2 != 0 {
		return nil, fmt.Errorf("tensor %s: shape %v does not fit %d heads of %d", t.Name, t.Shape, heads, dim)
	}
	width := len(v) / t.Shape[0]
	out := make([]float32, len(v))
	for h := range heads {
		for i := range dim {
			from := h*dim + i%2*dim/2 + i/2
			copy(out[(h*dim+i)*width:(h*dim+i+1)*width], v[from*width:(from+1)*width])
		}
	}
	return out, nil
}
