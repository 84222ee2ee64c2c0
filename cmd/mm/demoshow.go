package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/eval"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/seed"
)

// demoShown is one thing that the demo shows of what the build can.
type demoShown struct {
	What   string `json:"what"`
	File   string `json:"file,omitempty"` // that was asked about, or made
	Ask    string `json:"ask"`
	Said   string `json:"said,omitempty"` // of a picture that was made: what its pixels show
	Answer string `json:"answer,omitempty"`
	Right  *bool  `json:"right,omitempty"` // absent where nobody judges
	Lacks  string `json:"lacks,omitempty"` // why the build cannot
	// Untrained are the parts it went through whose weights are random.
	Untrained []string `json:"untrained,omitempty"`
}

// demoFolder makes the folder that things are left in, and gives its whole path.
func demoFolder(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	d, err := fsx.Create(path, 0o755, fsx.Options{})
	if err != nil {
		return "", fmt.Errorf("--out: %w", err)
	}
	return path, d.Close()
}

// demoParts are the functions of a graph: the parts that an input or an output of
// a modality goes through.
type demoParts struct {
	graph     string
	all       []string
	in, out   map[abi.Modality][]string
	untrained map[string]bool
}

// parts reads the graph and the manifests of its functions.
func (d *demonstration) parts(file string) (demoParts, error) {
	p := demoParts{in: map[abi.Modality][]string{}, out: map[abi.Modality][]string{}, untrained: map[string]bool{}}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		known, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*.graph.yaml"))
		for i, k := range known {
			known[i] = strings.TrimSuffix(filepath.Base(k), ".graph.yaml")
		}
		return p, usageError{fmt.Errorf("there is no reference graph %s: there are %s", strings.TrimSuffix(filepath.Base(file), ".graph.yaml"), strings.Join(known, ", "))}
	}
	if err != nil {
		return p, err
	}
	g, list := builds.Parse(file, data)
	if g == nil {
		return p, list.Err()
	}
	p.graph = g.Name
	take := func(name string) (*modules.Manifest, error) {
		m, list := modules.Load(filepath.Join(d.dir, "modules", name))
		if m == nil {
			return nil, list.Err()
		}
		p.untrained[name] = seed.Untrained(m)
		if !slices.Contains(p.all, name) {
			p.all = append(p.all, name)
		}
		return m, nil
	}
	for _, m := range g.Modalities {
		enc, err := take(m.Enc.Ref.Name)
		if err != nil {
			return p, err
		}
		if _, err := take(m.Proj.Ref.Name); err != nil {
			return p, err
		}
		p.in[enc.Modality] = []string{m.Enc.Ref.Name, m.Proj.Ref.Name}
	}
	for _, dec := range g.Decoders {
		m, err := take(dec.Ref.Name)
		if err != nil {
			return p, err
		}
		p.out[m.Modality] = []string{dec.Ref.Name}
	}
	return p, nil
}

// exports have every function shipped: graphs leave some out of their targets.
func (p demoParts) exports() []string {
	if len(p.all) == 0 {
		return nil
	}
	return []string{"--export", "gguf=int8,kv=fp8", "--export", "onnx=" + strings.Join(p.all, ",")}
}

// show has the build, pulled and verified, asked and asked for things.
func (d *demonstration) show(ref, home string, parts demoParts, cases []eval.Case) error {
	traced := false
	for _, c := range cases {
		s := demoShown{What: c.What, Ask: c.Ask, Answer: c.Answer}
		through, needs := parts.in[c.Input], fmt.Sprintf("no encoder for %s", c.Input)
		if c.Output != "" {
			through, needs = parts.out[c.Output], fmt.Sprintf("no decoder for %s", c.Output)
		}
		file := filepath.Join(d.out, c.File)
		switch {
		case through == nil:
			s.Lacks = parts.graph + " has " + needs
		case c.Input != "" && c.Data == nil && !slices.ContainsFunc(d.shown, func(o demoShown) bool { return o.File == file }):
			s.Lacks = "nothing was made to be asked about"
		}
		if s.Lacks != "" {
			d.shown = append(d.shown, s)
			continue
		}
		if c.Data != nil {
			if err := fsx.WriteFile(file, c.Data, 0o644); err != nil {
				return err
			}
		}
		s.File = file
		for _, name := range through {
			if parts.untrained[name] {
				s.Untrained = append(s.Untrained, name)
			}
		}
		args := []string{"run", ref, c.Ask, "--json"}
		switch {
		case c.Output != "":
			args = append(args, "--out-"+string(c.Output), file)
		default:
			args = append(args, "--"+string(c.Input), file, "--max-tokens", "24")
			if !traced {
				args, traced = append(args, "--trace-svg", filepath.Join(d.out, "trace.svg")), true
			}
		}
		var answer ran
		if err := d.step(c.What, home, &answer, args...); err != nil {
			return err
		}
		if err := s.judge(c, answer.Text); err != nil {
			return err
		}
		d.shown = append(d.shown, s)
	}
	return nil
}

// judge compares what was said, or drawn, with what is right.
func (s *demoShown) judge(c eval.Case, text string) error {
	s.Said = strings.TrimSpace(text)
	right := c.Right(text)
	switch c.Output {
	case abi.Image:
		png, err := os.ReadFile(s.File)
		if err != nil {
			return err
		}
		if s.Said, right, err = c.Seen(png); err != nil {
			return err
		}
	case abi.Audio:
		return nil // the build listens to it next
	}
	s.Right = &right
	return nil
}

// verdict is the last word on what is shown.
func (s demoShown) verdict() string {
	switch {
	case s.Lacks != "":
		return s.Lacks
	case s.Right == nil:
		return ""
	case *s.Right:
		return "right"
	}
	return "wrong: " + s.Answer
}

// printShown prints what was shown, where it lies, and what of it means nothing.
func (d *demonstration) printShown() error {
	var rows [][]string
	var untrained []string
	right, judged := 0, 0
	for _, s := range d.shown {
		said := s.Said
		if said != "" {
			said = fmt.Sprintf("%q", said)
		}
		file := ""
		if s.File != "" {
			file = filepath.Base(s.File)
		}
		rows = append(rows, []string{s.What, file, s.Ask, said, s.verdict()})
		if s.Right != nil {
			if judged++; *s.Right {
				right++
			}
		}
		for _, u := range s.Untrained {
			if !slices.Contains(untrained, u) {
				untrained = append(untrained, u)
			}
		}
	}
	fmt.Fprintln(d.p.stdout)
	if err := d.p.printTable([]string{"SHOWN", "FILE", "ASKED", "SAID", ""}, rows); err != nil {
		return err
	}
	if judged > 0 {
		fmt.Fprintf(d.p.stdout, "\n%d of %d right; the pictures, the sounds and trace.svg are in %s\n", right, judged, d.out)
	}
	if len(untrained) > 0 {
		fmt.Fprintf(d.p.stdout, "%s: placeholders with random weights, as their cards say. What went through them means nothing.\n", strings.Join(untrained, ", "))
	}
	return nil
}
