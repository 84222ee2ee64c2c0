package study

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/train"
)

// Arm is a recipe of a study.
type Arm struct {
	Name    string                     `json:"name"`
	Changes map[string]json.RawMessage `json:"changes,omitempty"` // by JSON pointer into the recipe
	Share   float64                    `json:"share,omitempty"`   // of the training documents; 0: all
	Same    string                     `json:"same,omitempty"`    // earlier arm with the same recipe, which is not run again
	Tokens  int                        `json:"tokens,omitempty"`  // of a cell of the grid; 0: those of the study

	Config train.Config `json:"-"`
}

// change is one option of a mutation.
type change struct {
	name  string
	set   map[string]json.RawMessage
	share float64
	path  string // in the study
}

// arms returns the base and an arm for each option of each mutation or, in a product,
// each combination.
func (s *Study) arms(at func(string) diag.Pos, list *diag.List) []Arm {
	var options [][]change
	for i, m := range s.Mutations {
		all, err := m.options(s, fmt.Sprintf("/mutations/%d", i))
		if err != nil {
			list.Add(diag.StudyMutation, at(fmt.Sprintf("/mutations/%d", i)), err.Error(), "")
			continue
		}
		options = append(options, all)
	}
	combined := [][]change{nil}
	for _, all := range options {
		if s.Design == "product" {
			for _, c := range combined {
				for _, o := range all {
					combined = append(combined, append(slices.Clip(c), o))
				}
			}
		} else {
			for _, o := range all {
				combined = append(combined, []change{o})
			}
		}
		if len(combined) > maxArms {
			list.Add(diag.TooLarge, at("/mutations"), fmt.Sprintf("got more than %d arms", maxArms), "")
			return nil
		}
	}
	var out []Arm
	seen := map[string]string{}
	for _, c := range combined {
		a, path, err := s.arm(c)
		if err != nil {
			list.Add(diag.StudyMutation, at(path), fmt.Sprintf("arm %s: %v", a.Name, err), "")
			continue
		}
		if slices.ContainsFunc(out, func(o Arm) bool { return o.Name == a.Name }) {
			list.Add(diag.RepeatedItem, at(path), fmt.Sprintf("duplicate arm %q", a.Name), "")
			continue
		}
		key := digestOf(normal(a.Config), a.Share)
		if a.Same = seen[key]; a.Same == "" {
			seen[key] = a.Name
		}
		out = append(out, a)
	}
	return out
}

// arm applies changes to the base. path is the place in the study of a fault.
func (s *Study) arm(changes []change) (a Arm, path string, err error) {
	a = Arm{Name: BaseArm, Config: s.Base}
	var names []string
	for _, c := range changes {
		names, path = append(names, c.name), c.path
		for _, p := range slices.Sorted(maps.Keys(c.set)) {
			if a.Changes == nil {
				a.Changes = map[string]json.RawMessage{}
			}
			if _, twice := a.Changes[p]; twice {
				return a, path, fmt.Errorf("%s is changed twice", p)
			}
			a.Changes[p] = c.set[p]
		}
		if c.share > 0 {
			a.Share = c.share
		}
	}
	if len(names) > 0 {
		a.Name = strings.Join(names, "+")
	}
	a.Config, err = changed(s.Base, a.Changes)
	return a, path, err
}

// sealed lists the parts of a recipe that no mutation may change: the text, the tokens and
// the end are the same for all arms, otherwise their losses do not compare.
var sealed = []string{"/name", "/seed", "/data", "/tokenizer", "/model/vocab_size", "/stop", "/base", "/lora", "/log_every", "/eval", "/save_every", "/threads"}

// changed returns the recipe with the values at JSON pointers replaced.
func changed(base train.Config, set map[string]json.RawMessage) (train.Config, error) {
	text, err := json.Marshal(base)
	if err != nil {
		return base, err
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return base, err
	}
	for _, p := range slices.Sorted(maps.Keys(set)) {
		for _, s := range sealed {
			if p == s || strings.HasPrefix(p, s+"/") {
				return base, fmt.Errorf("%s is the same in all arms and cannot be changed", p)
			}
		}
		if err := put(tree, p, set[p]); err != nil {
			return base, err
		}
	}
	if text, err = json.Marshal(tree); err != nil {
		return base, err
	}
	cfg, _, err := decodeRecipe("recipe", text)
	if err != nil {
		return base, fmt.Errorf("%s", oneLine(err))
	}
	return cfg, nil
}

// put sets the value at a JSON pointer (RFC 6901). Missing objects are created.
func put(tree any, pointer string, value json.RawMessage) error {
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		return fmt.Errorf("%s: %w", pointer, err)
	}
	parts := strings.Split(pointer, "/")
	if len(parts) < 2 || parts[0] != "" {
		return fmt.Errorf("invalid JSON pointer %q, want one such as /optimizer/lr", pointer)
	}
	for i, part := range parts[1:] {
		m, ok := tree.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: %s is not an object", pointer, strings.Join(parts[:i+1], "/"))
		}
		key := strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		if i == len(parts)-2 {
			m[key] = v
			return nil
		}
		if m[key] == nil {
			m[key] = map[string]any{}
		}
		tree = m[key]
	}
	return nil
}

// options returns the options of a mutation, in the order of their values.
func (m Mutation) options(s *Study, path string) ([]change, error) {
	if m.Kind == "" {
		return m.own(path)
	}
	preset, ok := presets[m.Kind]
	if !ok {
		return nil, fmt.Errorf("unknown kind %q", m.Kind)
	}
	values := m.Values
	if values == nil {
		values = preset.defaults(s.Base.WithDefaults(), s.Tokens)
	}
	var out []change
	for i, v := range values {
		c, err := preset.apply(s.Base.WithDefaults(), v)
		if err != nil {
			return nil, fmt.Errorf("%s: value %d: %w", m.Kind, i+1, err)
		}
		c.name, c.path = m.Kind+"="+c.name, path
		out = append(out, c)
	}
	return out, nil
}

// own returns the combinations of the user's own values.
func (m Mutation) own(path string) ([]change, error) {
	all := []change{{name: m.Name, path: path, set: map[string]json.RawMessage{}}}
	for _, p := range slices.Sorted(maps.Keys(m.Set)) {
		var next []change
		for _, c := range all {
			for _, v := range m.Set[p] {
				n := change{name: c.name, path: path, set: maps.Clone(c.set)}
				n.set[p] = v
				if len(m.Set[p]) > 1 {
					n.name += label(c.name == m.Name) + short(v)
				}
				next = append(next, n)
			}
		}
		if all = next; len(all) > maxArms {
			return nil, fmt.Errorf("%s: more than %d combinations", m.Name, maxArms)
		}
	}
	return all, nil
}

func label(first bool) string {
	if first {
		return "="
	}
	return ","
}

// short formats a value for the name of an arm.
func short(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s
	}
	var f float64
	if json.Unmarshal(v, &f) == nil {
		return number(f)
	}
	var b bytes.Buffer
	if json.Compact(&b, v) != nil {
		return string(v)
	}
	return b.String()
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// preset is a kind of mutation.
type preset struct {
	defaults func(base train.Config, tokens int) []json.RawMessage
	apply    func(base train.Config, value json.RawMessage) (change, error)
}

// presets are the six strategies of phi-auto.
var presets = map[string]preset{
	"optimizer": {func(train.Config, int) []json.RawMessage { return raws("adamw", "lion", "muon", "schedule-free") }, optimizer},
	"rate": {func(b train.Config, _ int) []json.RawMessage {
		return raws(b.Optimizer.Rate/10, b.Optimizer.Rate*10, b.Optimizer.Rate*100)
	}, rate},
	"size":     {func(b train.Config, _ int) []json.RawMessage { return sizes(b) }, size},
	"batch":    {func(b train.Config, _ int) []json.RawMessage { return batches(b) }, batch},
	"schedule": {func(b train.Config, tokens int) []json.RawMessage { return schedules(b, tokens) }, schedule},
	"data":     {func(train.Config, int) []json.RawMessage { return raws(0.03, 0.3) }, data},
}

func raws(values ...any) []json.RawMessage {
	out := make([]json.RawMessage, len(values))
	for i, v := range values {
		out[i], _ = json.Marshal(v) // numbers, strings and flat structs
	}
	return out
}

// decode decodes a value of a preset strictly.
func decode(v json.RawMessage, into any, want string) error {
	d := json.NewDecoder(bytes.NewReader(v))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("got %s, want %s", short(v), want)
	}
	return nil
}

// optimizer replaces the optimizer; its rate is the default of the optimizer.
func optimizer(_ train.Config, v json.RawMessage) (change, error) {
	var name string
	err := decode(v, &name, "the name of an optimizer")
	return change{name: name, set: map[string]json.RawMessage{"/optimizer": raws(map[string]string{"name": name})[0]}}, err
}

func rate(_ train.Config, v json.RawMessage) (change, error) {
	var lr float64
	err := decode(v, &lr, "a rate")
	return change{name: number(lr), set: map[string]json.RawMessage{"/optimizer/lr": v}}, err
}

func sizes(b train.Config) []json.RawMessage {
	m := b.Model
	return raws(Size{m.Dim / 2, m.Layers, m.Heads}, Size{m.Dim * 2, m.Layers, m.Heads}, Size{m.Dim, m.Layers * 2, m.Heads})
}

func size(b train.Config, v json.RawMessage) (change, error) {
	var s Size
	if err := decode(v, &s, "{dim, layers, heads}"); err != nil {
		return change{}, err
	}
	return change{name: s.name(), set: s.set(b)}, s.check(b)
}

// check reports a width that the heads do not divide.
func (s Size) check(b train.Config) error {
	if heads := cmp.Or(s.Heads, b.Model.Heads); heads < 1 || s.Dim%heads != 0 {
		return fmt.Errorf("dim %d is not a multiple of %d heads", s.Dim, heads)
	}
	return nil
}

func (s Size) name() string {
	if s.Heads > 0 {
		return fmt.Sprintf("%dd%dL%dH", s.Dim, s.Layers, s.Heads)
	}
	return fmt.Sprintf("%dd%dL", s.Dim, s.Layers)
}

func (s Size) set(b train.Config) map[string]json.RawMessage {
	if s.Heads == 0 {
		s.Heads = b.Model.Heads
	}
	v := raws(s.Dim, s.Layers, s.Heads, 4*s.Dim, s.Dim/s.Heads)
	return map[string]json.RawMessage{"/model/dim": v[0], "/model/layers": v[1], "/model/heads": v[2], "/model/kv_heads": v[2], "/model/hidden": v[3], "/model/head_dim": v[4]}
}

// shape is a value of the preset batch.
type shape struct {
	Batch      int `json:"batch_size"`
	Sequence   int `json:"seq_len,omitempty"`
	Accumulate int `json:"accumulate,omitempty"`
}

func batches(b train.Config) []json.RawMessage {
	return raws(shape{Batch: b.BatchSize * 2}, shape{Batch: max(b.BatchSize/2, 1)}, shape{Batch: b.BatchSize * 2, Sequence: max(b.SeqLen/2, 2)})
}

func batch(b train.Config, v json.RawMessage) (change, error) {
	var s shape
	if err := decode(v, &s, "{batch_size, seq_len, accumulate}"); err != nil {
		return change{}, err
	}
	set := map[string]json.RawMessage{"/batch_size": raws(s.Batch)[0]}
	if s.Sequence == 0 {
		s.Sequence = b.SeqLen
	}
	set["/seq_len"] = raws(s.Sequence)[0]
	name := fmt.Sprintf("%dx%d", s.Batch, s.Sequence)
	if s.Accumulate > 0 {
		set["/accumulate"] = raws(s.Accumulate)[0]
		name += fmt.Sprintf("x%d", s.Accumulate)
	}
	return change{name: name, set: set}, nil
}

func schedules(b train.Config, tokens int) []json.RawMessage {
	warm := max(tokens/stepTokens(b)/20, 1)
	return raws(map[string]any{"kind": "wsd", "warmup": warm, "floor": 0.03}, map[string]any{"kind": "cosine", "warmup": warm, "floor": 0.03},
		map[string]any{"kind": "constant", "warmup": warm})
}

func schedule(_ train.Config, v json.RawMessage) (change, error) {
	var s struct {
		Kind   string  `json:"kind"`
		Warmup int     `json:"warmup"`
		Floor  float64 `json:"floor"`
		Stable float64 `json:"stable"`
	}
	if err := decode(v, &s, "{kind, warmup, floor, stable}"); err != nil {
		return change{}, err
	}
	name := s.Kind
	for _, f := range []struct {
		name string
		v    float64
	}{{"w", float64(s.Warmup)}, {"f", s.Floor}, {"s", s.Stable}} {
		if f.v != 0 {
			name += "-" + f.name + number(f.v)
		}
	}
	return change{name: name, set: map[string]json.RawMessage{"/schedule": v}}, nil
}

// data limits the training documents to a share: less data and less diversity.
func data(_ train.Config, v json.RawMessage) (change, error) {
	var share float64
	if err := decode(v, &share, "a share"); err != nil {
		return change{}, err
	}
	if !(share > 0 && share < 1) || math.IsNaN(share) {
		return change{}, fmt.Errorf("share out of range: got %v, want above 0 and below 1", share)
	}
	return change{name: number(share), share: share}, nil
}

// stepTokens returns the tokens of a step of a recipe with its defaults.
func stepTokens(cfg train.Config) int {
	cfg = cfg.WithDefaults()
	return cfg.BatchSize * cfg.SeqLen * cfg.Accumulate
}

// near returns a hint for a misspelled name.
func near(got string, names []string) string {
	if name, ok := diag.Nearest(got, names); ok {
		return fmt.Sprintf("did you mean %q?", name)
	}
	if len(names) <= 20 {
		return "arms: " + strings.Join(names, ", ")
	}
	return ""
}
