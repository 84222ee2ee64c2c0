// Package pipeline defines the steps that continuous integration takes for a module
// or a build, runs them, and writes the workflows of GitHub Actions, GitLab and
// Azure Pipelines that run the same steps.
//
// A step is one or more commands of mm. A workflow holds no shell code
// beyond the installation of mm: each of its jobs runs mm ci run, so that a failure
// there is a failure here as well.
package pipeline

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/schemas"
)

// Kinds of pipelines.
const (
	Module    = "module"
	Build     = "build"
	Promotion = "promotion"
)

// Options describes a pipeline.
type Options struct {
	Kind     string // Module, Build or Promotion
	Path     string // folder of the module, or the graph, with slashes, below the root of the repository
	Registry string // HOST/REPOSITORY to publish a build to. Empty: it is not published
	Out      string // folder of the build. Empty: dist
	Key      string // private key of the signatures. Empty: the default key
	Trust    string // trust file with the channels of a promotion, or the identity that signs a build
	Public   string // public key that the published build is verified with. Empty: the trust file
	Format   string // of the faults: text, or github for annotations. Empty: text

	// Services and Root are signing_config.json and trusted_root.json: a build is signed as
	// the identity of the provider's token instead of with a key. Empty: with a key.
	Services, Root string
}

// Keyless reports whether a build is signed as an identity.
func (o Options) Keyless() bool { return o.Services != "" }

// Step is a named part of a pipeline.
type Step struct {
	Name     string
	Title    string // a noun phrase
	Commands []Command
	Publish  bool // needs the signing key and the registry
}

// Command is one command of mm.
type Command struct {
	Args []string
	Out  string // file that receives the standard output. Empty: none
}

// String formats the command for a shell.
func (c Command) String() string {
	words := []string{"mm"}
	for _, a := range c.Args {
		if a == "" || strings.ContainsAny(a, " '\"$&|;<>()*?[]{}#~`\\") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	if c.Out != "" {
		words = append(words, ">", c.Out)
	}
	return strings.Join(words, " ")
}

// budgets is the file next to a graph or a module with its limits.
const budgets = "budgets.yaml"

// plain matches the paths and registries that may be written into workflows.
var plain = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._/:@-]+$`) })

// check refuses values that could not be written into a workflow.
func (o Options) check() error {
	switch {
	case o.Kind != Module && o.Kind != Build && o.Kind != Promotion:
		return fmt.Errorf("bad kind %q, want module, build or promotion", o.Kind)
	case o.Kind == Promotion && (o.Registry == "" || o.Trust == ""):
		return errors.New("a promotion needs a registry, and a trust file with its channels")
	case o.Kind != Promotion && !o.Keyless() && o.Trust != "":
		return fmt.Errorf("trust file %s: only a promotion takes one, or a build that is signed without a key", o.Trust)
	case o.Keyless() != (o.Root != ""):
		return errors.New("signing without a key needs the files signing_config.json and trusted_root.json")
	case o.Keyless() && (o.Kind != Build || o.Registry == ""):
		return fmt.Errorf("got a %s, want a build with a registry: nothing else is signed without a key", o.Kind)
	case o.Keyless() && (o.Key != "" || o.Public != ""):
		return errors.New("a key and signing without one exclude each other")
	case o.Keyless() && o.Trust == "":
		return errors.New("signing without a key needs a trust file with the identity, which the published build is verified by")
	case o.Path == "" || path.IsAbs(o.Path) || path.Clean(o.Path) != o.Path || o.Path == ".." || strings.HasPrefix(o.Path, "../") || strings.HasPrefix(o.Path, "-"):
		return fmt.Errorf("bad path %q, want one below the root of the repository", o.Path)
	case o.Kind == Module && o.Registry != "":
		return fmt.Errorf("registry %s: only a build is published", o.Registry)
	}
	for _, v := range []string{o.Path, o.Registry, o.Out, o.Key, o.Public, o.Trust, o.Services, o.Root} {
		if v != "" && !plain().MatchString(v) {
			return fmt.Errorf("bad value %q: want letters, digits and . _ / : @ -", v)
		}
	}
	return nil
}

// Steps returns the steps of a pipeline in order. Root is the folder of the
// repository, where optional files are looked for.
func Steps(root string, o Options) ([]Step, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Format == "" {
		o.Format = "text"
	}
	if o.Out == "" {
		o.Out = "dist"
	}
	if o.Kind == Module {
		return o.module(root), nil
	}
	file := filepath.Join(root, filepath.FromSlash(o.Path))
	data, err := fsx.ReadFile(file, schemas.MaxBytes)
	if err != nil {
		return nil, err
	}
	g, faults := builds.Parse(file, data)
	if g == nil {
		return nil, faults.Err()
	}
	if o.Kind == Promotion {
		return o.promotion(g), nil
	}
	return o.build(root, g), nil
}

// ways lists the channels of a promotion in order, with the evidence that each demands.
var ways = []struct{ channel, evidence string }{
	{"staging", "sbom"}, {"candidate", "sbom,provenance"}, {"prod", "sbom,provenance,eval"},
}

// promotion returns a step for each channel, which verifies the evidence about the
// published build and leads the channel to it.
func (o Options) promotion(g *builds.Graph) []Step {
	var steps []Step
	for _, w := range ways {
		promote := []string{"promote", o.published(g), "--to", w.channel, "--trust", o.Trust}
		if o.Key != "" {
			promote = append(promote, "--key", o.Key)
		}
		steps = append(steps, Step{Name: w.channel, Title: "channel " + w.channel + " with " + strings.ReplaceAll(w.evidence, ",", ", "), Publish: true, Commands: []Command{
			{Args: []string{"verify", "--remote", o.published(g), "--require", w.evidence, "--trust", o.Trust}}, {Args: promote},
		}})
	}
	return steps
}

// published returns the reference of the published build.
func (o Options) published(g *builds.Graph) string {
	if at := strings.LastIndexByte(o.Registry, ':'); at < strings.LastIndexByte(o.Registry, '/') || at < 0 {
		return o.Registry + ":" + abi.VersionTag(g.Version)
	}
	return o.Registry
}

// suites is the folder next to a graph with the tasks that a build is measured by.
const suites = "suites"

// targets returns the targets of a graph that run on any machine, sorted.
func targets(g *builds.Graph) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(g.Exports)) {
		if !slices.ContainsFunc(g.Exports[name].Exports, func(e builds.Export) bool { return e.Format != abi.GGUF && e.Format != abi.ONNX }) {
			out = append(out, name)
		}
	}
	return out
}

// evaluate returns the step of the suites if their folder exists, and the commands that
// sign its results.
func (o Options) evaluate(root string, g *builds.Graph) (steps []Step, attest []Command) {
	folder := path.Join(path.Dir(o.Path), suites)
	if info, err := os.Stat(filepath.Join(root, filepath.FromSlash(folder))); err != nil || !info.IsDir() {
		return nil, nil
	}
	s := Step{Name: "eval", Title: "suites"}
	for _, name := range targets(g) {
		results := path.Join(path.Dir(o.Out), "results-"+name)
		s.Commands = append(s.Commands, Command{Args: []string{"eval", "suite", o.Out, folder, "--target", name, "--out", results}})
		attest = append(attest, Command{Args: []string{"attest", o.Out, "--eval", results}})
	}
	if s.Commands == nil {
		return nil, nil
	}
	return []Step{s}, attest
}

func one(args ...string) []Command { return []Command{{Args: args}} }

func (o Options) module(root string) []Step {
	steps := []Step{
		{Name: "abi", Title: "manifest, files and MM-ABI", Commands: one("validate", "--files", "--strict", "--format", o.Format, o.Path)},
		{Name: "golden", Title: "model against its manifest", Commands: one("module", "check", o.Path)},
	}
	return append(steps, o.budget(root, path.Join(o.Path, budgets), o.Path)...)
}

// budget returns the step of budgets if the file exists.
func (o Options) budget(root, file, of string) []Step {
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
		return nil
	}
	return []Step{{Name: "budgets", Title: "latency, memory, size and quality", Commands: one("eval", "budget", file, of)}}
}

// smoke runs the golden prompts of each target that runs on any machine.
func (o Options) smoke(g *builds.Graph) []Step {
	s := Step{Name: "golden", Title: "golden prompts of the graph"}
	for _, name := range targets(g) {
		s.Commands = append(s.Commands, Command{Args: []string{"run", o.Path, "--smoke", "--target", name}})
	}
	if len(g.Golden) == 0 || len(s.Commands) == 0 {
		return nil
	}
	return []Step{s}
}

func (o Options) build(root string, g *builds.Graph) []Step {
	steps := []Step{
		{Name: "validate", Title: "graph, its modules and MM-ABI", Commands: one("validate", "--format", o.Format, o.Path)},
		{Name: "lock", Title: "lock file", Commands: one("lock", "--check", o.Path)},
		{Name: "assemble", Title: "exports and composition", Commands: one("assemble", o.Path, "--locked", "--out", o.Out)},
	}
	steps = append(steps, o.smoke(g)...)
	steps = append(steps, o.budget(root, path.Join(path.Dir(o.Path), budgets), o.Out)...)
	measured, attest := o.evaluate(root, g)
	steps = append(steps, measured...)
	sbom := Step{Name: "sbom", Title: "bill of materials"}
	for _, name := range slices.Sorted(maps.Keys(g.Exports)) {
		sbom.Commands = append(sbom.Commands, Command{Args: []string{"sbom", o.Out, "--target", name}, Out: path.Join(path.Dir(o.Out), "sbom-"+name+".cdx.json")})
	}
	steps = append(steps, sbom)
	if o.Registry == "" {
		return steps
	}
	key := func(args ...string) Command {
		switch {
		case o.Keyless():
			args = append(args, "--keyless", "--signing-config", o.Services, "--trusted-root", o.Root)
		case o.Key != "":
			args = append(args, "--key", o.Key)
		}
		return Command{Args: args}
	}
	proof := []Command{key("attest", o.Out, "--type", "sbom"), key("attest", o.Out, "--type", "provenance")}
	demanded := "sbom,provenance"
	for _, c := range attest {
		proof = append(proof, key(c.Args...))
	}
	if len(attest) > 0 && len(attest) == len(g.Exports) {
		demanded += ",eval"
	}
	verify := Command{Args: []string{"verify", "--remote", o.published(g), "--require", demanded}}
	if o.Public != "" {
		verify.Args = append(verify.Args, "--key", o.Public)
	} else if o.Keyless() {
		verify.Args = append(verify.Args, "--trust", o.Trust)
	}
	return append(steps,
		Step{Name: "sign", Title: "signature", Publish: true, Commands: []Command{key("sign", o.Out)}},
		Step{Name: "attest", Title: "evidence", Publish: true, Commands: proof},
		Step{Name: "push", Title: "registry", Publish: true, Commands: one("push", o.Out, o.Registry)},
		Step{Name: "verify", Title: "published build with its evidence", Publish: true, Commands: []Command{verify}},
	)
}

// Select returns the steps with the names, each of which may be several separated by
// commas, or all without names.
func Select(steps []Step, only []string) ([]Step, error) {
	if len(only) == 0 {
		return steps, nil
	}
	var out []Step
	for _, name := range strings.Split(strings.Join(only, ","), ",") {
		name = strings.TrimSpace(name)
		i := slices.IndexFunc(steps, func(s Step) bool { return s.Name == name })
		if i < 0 {
			var names []string
			for _, s := range steps {
				names = append(names, s.Name)
			}
			return nil, fmt.Errorf("unknown step %q, want one of %s", name, strings.Join(names, ", "))
		}
		out = append(out, steps[i])
	}
	return out, nil
}
