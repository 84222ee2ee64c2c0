package study

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/experiment"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/train"
)

// Study is a study file, as described by schemas/study.schema.json.
type Study struct {
	Name       string       `json:"name"`
	Question   string       `json:"question,omitempty"`
	Recipe     string       `json:"recipe"`           // file, relative to the study
	Tokens     int          `json:"tokens"`           // of training in each trial
	Seeds      []uint64     `json:"seeds,omitempty"`  // [1, 2, 3]
	Design     string       `json:"design,omitempty"` // each: one mutation at a time; product: all combinations
	Mutations  []Mutation   `json:"mutations,omitempty"`
	Hypotheses []Hypothesis `json:"hypotheses,omitempty"`
	Scheduler  Scheduler    `json:"scheduler,omitzero"`
	Budget     Budget       `json:"budget,omitzero"`
	Held       Held         `json:"held_out,omitzero"`
	Grid       *Grid        `json:"grid,omitempty"`
	Threads    int          `json:"threads,omitempty"` // 0: all of the machine; does not change the result

	Base train.Config `json:"-"` // the recipe
	Arms []Arm        `json:"-"` // the base first
	Dir  string       `json:"-"` // folder of the recipe's paths

	doc, recipe *schemas.Document // positions of the study's values and of the recipe's
}

// Mutation changes the base recipe: a preset with values, or a name with values for JSON
// pointers into the recipe.
type Mutation struct {
	Kind   string                       `json:"kind,omitempty"` // optimizer, rate, size, batch, schedule, data
	Values []json.RawMessage            `json:"values,omitempty"`
	Name   string                       `json:"name,omitempty"`
	Set    map[string][]json.RawMessage `json:"set,omitempty"`
}

// Hypothesis is a claim with the results that support and refute it.
type Hypothesis struct {
	Name    string `json:"name"`
	Claim   string `json:"claim"`
	Arm     string `json:"arm"`
	Against string `json:"against,omitempty"` // an arm, unigram, bigram or trigram; base
	Metric  string `json:"metric,omitempty"`  // loss, bits_per_byte or diverged; loss
	Expect  Bound  `json:"expect,omitzero"`   // of metric(arm) - metric(against): supports
	Refute  Bound  `json:"refute,omitzero"`   // refutes
}

// Bound is a half-line.
type Bound struct {
	Below *float64 `json:"below,omitempty"`
	Above *float64 `json:"above,omitempty"`
}

// Scheduler selects which trials run to the end.
type Scheduler struct {
	Kind  string `json:"kind,omitempty"`  // grid: all; halving
	Eta   int    `json:"eta,omitempty"`   // halving keeps one in eta; 3
	Rungs []int  `json:"rungs,omitempty"` // tokens before the end at which halving drops arms
}

// Budget ends a study early. Zero members are not limits.
type Budget struct {
	Tokens int                 `json:"tokens,omitempty"` // of training
	Time   experiment.Duration `json:"time,omitempty"`   // of trials
	Joules float64             `json:"joules,omitempty"` // of the processor's packages
}

// Held describes the parts of the documents that no trial trains on.
type Held struct {
	Choose    float64 `json:"choose,omitempty"`    // share that the scheduler chooses by; 0.05
	Judge     float64 `json:"judge,omitempty"`     // share that is sealed until the choice; 0.05
	Documents int     `json:"documents,omitempty"` // at most this many of each; 200
	Seed      uint64  `json:"seed,omitempty"`
}

// Grid is a grid of model sizes and tokens for a scaling law.
type Grid struct {
	Arm    string `json:"arm,omitempty"` // whose other settings apply; base
	Sizes  []Size `json:"sizes"`
	Tokens []int  `json:"tokens"`
}

// Size is the extent of a model.
type Size struct {
	Dim    int `json:"dim"`
	Layers int `json:"layers"`
	Heads  int `json:"heads,omitempty"` // 0: those of the base
}

// The limits of a study.
const (
	maxArms   = 256
	maxTrials = 2048     // arms and cells, times seeds
	maxText   = 24 << 10 // bytes of the study and of its recipe, which share a row
)

// Baselines are the names of the models of token counts that a hypothesis may compare an
// arm with.
var baselines = []string{"unigram", "bigram", "trigram"}

// BaseArm is the name of the arm without changes.
const BaseArm = "base"

// Read reads and checks the study at path and its recipe. The error holds all faults.
func Read(path string) (Study, error) {
	data, list := schemas.ReadFile(path, diag.Unreadable)
	if list.Failed() {
		return Study{}, list.Err()
	}
	return Parse(path, data, func(name string) ([]byte, error) {
		data, list := schemas.ReadFile(train.Resolve(filepath.Dir(path), name), diag.Unreadable)
		return data, list.Err()
	})
}

// Texts reads the texts of the study at path and of its recipe.
func (s Study) Texts(path string) (t Texts, err error) {
	study, list := schemas.ReadFile(path, diag.Unreadable)
	recipe, more := schemas.ReadFile(train.Resolve(filepath.Dir(path), s.Recipe), diag.Unreadable)
	return Texts{study, recipe}, append(list, more...).Err()
}

// Parse parses and checks a study. read reads its recipe.
func Parse(file string, data []byte, read func(name string) ([]byte, error)) (Study, error) {
	var s Study
	doc, list := schemas.Load(schemas.Study, file, data)
	if doc == nil || list.Failed() {
		return s, list.Err()
	}
	if err := doc.Decode(&s); err != nil {
		return s, err
	}
	s.fill()
	recipe, err := read(s.Recipe)
	if err != nil {
		return s, err
	}
	from := train.Resolve(filepath.Dir(file), s.Recipe)
	for name, n := range map[string]int{file: len(data), from: len(recipe)} {
		if n > maxText {
			list.Add(diag.TooLarge, diag.Pos{File: name}, fmt.Sprintf("got %d bytes, limit %d", n, maxText), "")
		}
	}
	base, described, err := decodeRecipe(from, recipe)
	if err != nil {
		return s, err
	}
	s.doc, s.recipe = doc, described
	s.Dir = filepath.Dir(from)
	s.settle(base, doc, &list)
	list.Sort()
	return s, list.Err()
}

// decodeRecipe parses and checks a recipe of a language model.
func decodeRecipe(file string, data []byte) (cfg train.Config, doc *schemas.Document, err error) {
	doc, list := schemas.Load(schemas.Train, file, data)
	if doc == nil || list.Failed() {
		return cfg, nil, list.Err()
	}
	if err := doc.Decode(&cfg); err != nil {
		return cfg, nil, err
	}
	for _, f := range train.Faults(cfg.Validate()) {
		list.Add(diag.NotAllowed, doc.Pos(f.Path), f.Error(), "")
	}
	return cfg, doc, list.Err()
}

// fill sets the defaults.
func (s *Study) fill() {
	if s.Seeds == nil {
		s.Seeds = []uint64{1, 2, 3}
	}
	s.Design = cmp.Or(s.Design, "each")
	s.Scheduler.Kind = cmp.Or(s.Scheduler.Kind, "grid")
	s.Scheduler.Eta = cmp.Or(s.Scheduler.Eta, 3)
	s.Held.Choose, s.Held.Judge = cmp.Or(s.Held.Choose, 0.05), cmp.Or(s.Held.Judge, 0.05)
	s.Held.Documents = cmp.Or(s.Held.Documents, 200)
	for i := range s.Hypotheses {
		h := &s.Hypotheses[i]
		h.Against, h.Metric = cmp.Or(h.Against, BaseArm), cmp.Or(h.Metric, "loss")
	}
}

// settle derives the arms from the base and reports the faults that the schema does not
// cover.
func (s *Study) settle(base train.Config, doc *schemas.Document, list *diag.List) {
	s.Base = base
	at := func(path string) diag.Pos { return doc.Pos(path) }
	if what := unsplittable(base); what != "" {
		list.Add(diag.StudyRecipe, at("/recipe"), what, "")
	}
	for i, seed := range s.Seeds {
		if slices.Contains(s.Seeds[:i], seed) {
			list.Add(diag.RepeatedItem, at(fmt.Sprintf("/seeds/%d", i)), fmt.Sprintf("duplicate seed %d", seed), "")
		}
	}
	s.Arms = s.arms(at, list)
	s.checkHypotheses(at, list)
	s.checkGrid(at, list)
	s.checkRungs(at, list)
	if s.Held.Choose+s.Held.Judge >= 0.9 {
		list.Add(diag.StudyHeld, at("/held_out"), fmt.Sprintf("choose %v and judge %v leave less than a tenth", s.Held.Choose, s.Held.Judge), "")
	}
	if n := (len(s.Arms) + s.Grid.cells()) * len(s.Seeds); n > maxTrials {
		list.Add(diag.TooLarge, at("/mutations"), fmt.Sprintf("got %d trials, limit %d", n, maxTrials), "")
	}
	if cost := s.Tokens * len(s.Seeds); s.Budget.Tokens > 0 && s.Budget.Tokens < cost {
		list.Add(diag.StudyBudget, at("/budget/tokens"), fmt.Sprintf("got %d tokens, the base alone needs %d", s.Budget.Tokens, cost), "")
	}
}

// unsplittable returns why the documents of a recipe cannot be split, or "".
func unsplittable(base train.Config) string {
	d := base.Data
	switch {
	case d.Format == "uint16":
		return "data.format uint16 has no documents to split"
	case d.Format == "chat" || len(d.Context) > 0:
		return "data with context that is not learned is not supported"
	case len(d.HeldFiles) > 0 || d.Manifest != "":
		return "data.held_out_files and data.manifest: the study holds out documents itself"
	case base.LoRA != nil || base.Base != "":
		return "base and lora are not supported: a study trains from the start"
	}
	return ""
}

func (s *Study) checkHypotheses(at func(string) diag.Pos, list *diag.List) {
	names := s.armNames()
	seen := map[string]bool{}
	for i, h := range s.Hypotheses {
		p := fmt.Sprintf("/hypotheses/%d", i)
		if seen[h.Name] {
			list.Add(diag.RepeatedItem, at(p+"/name"), fmt.Sprintf("duplicate hypothesis %q", h.Name), "")
		}
		seen[h.Name] = true
		if !slices.Contains(names, h.Arm) {
			list.Add(diag.StudyArm, at(p+"/arm"), fmt.Sprintf("unknown arm %q", h.Arm), near(h.Arm, names))
		}
		if !slices.Contains(names, h.Against) && !slices.Contains(baselines, h.Against) {
			list.Add(diag.StudyArm, at(p+"/against"), fmt.Sprintf("unknown arm %q", h.Against), near(h.Against, names))
		}
		if h.Arm == h.Against {
			list.Add(diag.StudyArm, at(p+"/against"), fmt.Sprintf("arm %q is compared with itself", h.Arm), "")
		}
		if h.Metric == "diverged" {
			if h.Expect != (Bound{}) || h.Refute != (Bound{}) {
				list.Add(diag.StudyClaim, at(p), "metric diverged has no bounds: every seed diverges, or none does", "")
			}
			continue
		}
		if what := h.disjoint(); what != "" {
			list.Add(diag.StudyClaim, at(p), what, "")
		}
	}
}

// disjoint returns why the bounds of h do not separate support from refutation, or "".
func (h Hypothesis) disjoint() string {
	e, r := h.Expect, h.Refute
	switch {
	case e.Below != nil && e.Above == nil && r.Above != nil && r.Below == nil:
		if *e.Below > *r.Above {
			return fmt.Sprintf("a difference between %v and %v would support and refute it", *r.Above, *e.Below)
		}
	case e.Above != nil && e.Below == nil && r.Below != nil && r.Above == nil:
		if *e.Above < *r.Below {
			return fmt.Sprintf("a difference between %v and %v would support and refute it", *e.Above, *r.Below)
		}
	default:
		return "want expect.below with refute.above, or expect.above with refute.below"
	}
	return ""
}

func (s *Study) checkRungs(at func(string) diag.Pos, list *diag.List) {
	r := s.Scheduler
	if (r.Kind == "halving") != (len(r.Rungs) > 0) {
		list.Add(diag.StudyRungs, at("/scheduler"), "scheduler halving and rungs require each other", "")
	}
	for i, n := range r.Rungs {
		if i > 0 && n <= r.Rungs[i-1] || n >= s.Tokens {
			list.Add(diag.StudyRungs, at(fmt.Sprintf("/scheduler/rungs/%d", i)), fmt.Sprintf("got %d, want more than the rung before and less than tokens, %d", n, s.Tokens), "")
		}
	}
}

func (s *Study) checkGrid(at func(string) diag.Pos, list *diag.List) {
	if s.Grid == nil {
		return
	}
	names := s.armNames()
	if s.Grid.Arm = cmp.Or(s.Grid.Arm, BaseArm); !slices.Contains(names, s.Grid.Arm) {
		list.Add(diag.StudyArm, at("/grid/arm"), fmt.Sprintf("unknown arm %q", s.Grid.Arm), near(s.Grid.Arm, names))
		return
	}
	seen := map[string]bool{}
	for i, size := range s.Grid.Sizes {
		p := fmt.Sprintf("/grid/sizes/%d", i)
		if _, err := s.gridArm(size, s.Grid.Tokens[0]); err != nil {
			list.Add(diag.StudyMutation, at(p), err.Error(), "")
		}
		if seen[size.name()] {
			list.Add(diag.RepeatedItem, at(p), "duplicate size "+size.name(), "")
		}
		seen[size.name()] = true
	}
	for i, n := range s.Grid.Tokens {
		if slices.Contains(s.Grid.Tokens[:i], n) {
			list.Add(diag.RepeatedItem, at(fmt.Sprintf("/grid/tokens/%d", i)), fmt.Sprintf("duplicate number %d", n), "")
		}
	}
}

// cells returns the number of cells of the grid.
func (g *Grid) cells() int {
	if g == nil {
		return 0
	}
	return len(g.Sizes) * len(g.Tokens)
}

func (s *Study) armNames() []string {
	names := make([]string, len(s.Arms))
	for i, a := range s.Arms {
		names[i] = a.Name
	}
	return names
}

// limit returns the budget of time.
func (b Budget) limit() time.Duration { return time.Duration(b.Time) }
