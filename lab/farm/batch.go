package farm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/cpu"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/corpus"
	"mm-abi.org/mm/schemas"
)

// Batch is the jobs of a file, as schemas/jobs.schema.json describes it: an evaluation, a
// data set, the targets of a build, or commands. Its result is that of the same command on
// one machine, byte for byte.
type Batch struct {
	Name  string
	Dir   string // folder of the file
	Steps []Step // after those that they follow
}

// Step is a job of a batch.
type Step struct {
	Name  string
	Job   Job               // without inputs
	Files []string          // inputs in the folder of the batch
	Texts map[string]string // further inputs, by path
	After []string          // steps whose outputs are inputs
	Fetch bool              // the outputs are results of the batch:
	From  string            // those below this path,
	To    string            // placed below this one
}

// batchFile is a file of jobs.
type batchFile struct {
	Name     string       `json:"name"`
	Files    []string     `json:"files"`
	Needs    []string     `json:"needs"`
	Attempts int          `json:"attempts"`
	Seconds  int          `json:"seconds"`
	Eval     *batchEval   `json:"eval"`
	Data     *batchData   `json:"data"`
	Build    *batchBuild  `json:"build"`
	Commands []batchShell `json:"commands"`
}

type batchEval struct {
	Model   string   `json:"model"`
	Tasks   []string `json:"tasks"`
	Shards  int      `json:"shards"`
	Options []string `json:"options"`
}

type batchData struct {
	Manifest string `json:"manifest"`
	Parts    int    `json:"parts"`
}

type batchBuild struct {
	Graph   string   `json:"graph"`
	Options []string `json:"options"`
}

type batchShell struct {
	Name    string   `json:"name"`
	Run     []string `json:"run"`
	Files   []string `json:"files"`
	Outputs []string `json:"outputs"`
	After   []string `json:"after"`
	Needs   []string `json:"needs"`
}

// batchOut is the folder of the results in that of a job.
const batchOut = "out"

// ReadBatch reads and checks a file of jobs and the files that it names.
func ReadBatch(file string) (Batch, error) {
	data, list := schemas.ReadFile(file, diag.Unreadable)
	if list.Failed() {
		return Batch{}, list.Err()
	}
	return ParseBatch(file, data)
}

// ParseBatch is [ReadBatch] of the content of a file.
func ParseBatch(file string, data []byte) (Batch, error) {
	doc, list := schemas.Load(schemas.Jobs, file, data)
	if doc == nil || list.Failed() {
		return Batch{}, list.Err()
	}
	var f batchFile
	if err := doc.Decode(&f); err != nil {
		return Batch{}, err
	}
	p := &planner{f: f, b: Batch{Name: f.Name, Dir: filepath.Dir(file)}, doc: doc, list: list}
	p.plan()
	p.list.Sort()
	return p.b, p.list.Err()
}

// planner makes the steps of a batch.
type planner struct {
	f    batchFile
	b    Batch
	doc  *schemas.Document
	list diag.List
}

func (p *planner) plan() {
	var work []func()
	for _, one := range []struct {
		is   bool
		plan func()
	}{{p.f.Eval != nil, p.eval}, {p.f.Data != nil, p.data}, {p.f.Build != nil, p.build}, {p.f.Commands != nil, p.commands}} {
		if one.is {
			work = append(work, one.plan)
		}
	}
	if len(work) != 1 {
		p.fault(diag.BatchWork, "", fmt.Sprintf("got %d of eval, data, build and commands, want one", len(work)))
		return
	}
	work[0]()
}

func (p *planner) fault(code diag.Code, ptr, detail string) {
	p.list.Add(code, p.doc.Pos(ptr), detail, "")
}

// files returns the files at or below paths, sorted.
func (p *planner) files(ptr string, paths ...string) (all []string) {
	for _, name := range paths {
		found, err := filesBelow(p.b.Dir, name)
		if err != nil {
			p.fault(diag.BatchFile, ptr, err.Error())
		}
		all = append(all, found...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) > maxFiles {
		p.fault(diag.BatchFile, ptr, fmt.Sprintf("got %d files, limit %d", len(all), maxFiles))
		return nil
	}
	return all
}

// filesBelow returns the file at a path, or all files of a folder.
func filesBelow(dir, name string) (all []string, err error) {
	clean := strings.TrimSuffix(name, "/")
	if !schemas.ValidPath(clean) {
		return nil, fmt.Errorf("%q: want a relative path", name)
	}
	at := filepath.Join(dir, filepath.FromSlash(clean))
	err = filepath.WalkDir(at, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if !e.Type().IsRegular() || !schemas.ValidPath(rel) || len(all) > maxFiles {
			return fmt.Errorf("%s: want at most %d regular files with portable names", rel, maxFiles)
		}
		all = append(all, rel)
		return nil
	})
	var missing *fs.PathError
	if errors.As(err, &missing) && errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%s: missing file", name)
	}
	return all, err
}

// step adds a step and checks its job.
func (p *planner) step(ptr string, s Step, needs ...string) {
	s.Job.Attempts, s.Job.Seconds = p.f.Attempts, p.f.Seconds
	s.Job.Needs = append(slices.Clone(p.f.Needs), needs...)
	for _, out := range s.Job.Outputs {
		for _, name := range s.Files {
			if name == out || strings.HasPrefix(name, strings.TrimSuffix(out, "/")+"/") {
				p.fault(diag.BatchFile, ptr, fmt.Sprintf("%s: the job writes %s", name, out))
			}
		}
	}
	if _, _, err := s.Job.Encode(); err != nil {
		p.fault(diag.BatchStep, ptr, strings.TrimPrefix(err.Error(), "job: "))
	}
	p.b.Steps = append(p.b.Steps, s)
}

// level is the need of a worker whose results are those of this machine.
func level() string { return "cpu=" + string(cpu.Use()) }

// eval plans a job for each shard of the questions and one that judges the answers.
func (p *planner) eval() {
	e := p.f.Eval
	all := p.files("/eval", append(append([]string{e.Model}, e.Tasks...), p.f.Files...)...)
	args := slices.Concat([]string{"eval", "suite", e.Model}, e.Tasks, e.Options)
	last := Step{Name: "results", Files: all, Fetch: true, From: batchOut}
	last.Job = Job{Args: slices.Clone(args), Outputs: []string{batchOut + "/"}}
	for i := range e.Shards {
		name, file := fmt.Sprintf("shard-%d", i+1), fmt.Sprintf("answers/%d.jsonl", i+1)
		p.step("/eval", Step{Name: name, Files: all, Job: Job{Args: slices.Concat(args, []string{"--shard", fmt.Sprintf("%d/%d", i+1, e.Shards), "--out", file}), Outputs: []string{file}}}, level())
		last.After = append(last.After, name)
		last.Job.Args = append(last.Job.Args, "--answers", file)
	}
	last.Job.Args = append(last.Job.Args, "--out", batchOut)
	p.step("/eval", last, level())
}

// data plans a job for each part of the sources and one that joins the parts.
func (p *planner) data() {
	d := p.f.Data
	at := p.files("/data/manifest", d.Manifest)
	m, list := corpus.Read(filepath.Join(p.b.Dir, filepath.FromSlash(d.Manifest)))
	if p.list = append(p.list, list...); m == nil || list.Failed() || len(at) == 0 {
		return
	}
	args := []string{"data", "build", d.Manifest}
	last := Step{Name: "results", Files: at, Fetch: true, From: batchOut}
	last.Job = Job{Args: slices.Clone(args), Outputs: []string{batchOut + "/"}}
	n := min(d.Parts, len(m.Sources))
	for i := range n {
		paths := append([]string{d.Manifest}, p.f.Files...)
		for _, s := range (corpus.Part{Index: i, Count: n}).Sources(m) {
			paths = append(paths, path.Join(path.Dir(d.Manifest), s.Path))
		}
		name, file := fmt.Sprintf("part-%d", i+1), fmt.Sprintf("parts/%d", i+1)
		p.step("/data", Step{Name: name, Files: p.files("/data/manifest", paths...), Job: Job{Args: append(slices.Clone(args), "--part", fmt.Sprintf("%d/%d", i+1, n), "--out", file), Outputs: []string{file}}})
		last.After = append(last.After, name)
		last.Job.Args = append(last.Job.Args, "--parts", file)
	}
	last.Job.Args = append(last.Job.Args, "--out", batchOut)
	p.step("/data", last)
}

// The parts of a home that make the exports of another run unnecessary.
const (
	buildHome  = "home"
	homeBlobs  = buildHome + "/store/blobs/"
	homeCached = buildHome + "/cache/"
)

// emptyStore returns the files that make a store of blobs.
func emptyStore() map[string]string {
	return map[string]string{
		buildHome + "/store/" + ocispec.ImageLayoutFile: `{"imageLayoutVersion":"` + ocispec.ImageLayoutVersion + `"}`,
		buildHome + "/store/" + ocispec.ImageIndexFile:  `{"schemaVersion":2,"mediaType":"` + ocispec.MediaTypeImageIndex + `","manifests":[]}`,
	}
}

// build plans a job for each target, which exports its files, and one that composes all
// targets of these files.
func (p *planner) build() {
	b := p.f.Build
	all := p.files("/build/graph", append([]string{b.Graph}, p.f.Files...)...)
	text, list := schemas.ReadFile(filepath.Join(p.b.Dir, filepath.FromSlash(b.Graph)), diag.Unreadable)
	p.list = append(p.list, list...)
	if list.Failed() {
		return
	}
	g, list := builds.Parse(b.Graph, text)
	if p.list = append(p.list, list...); g == nil || list.Failed() {
		return
	}
	args := slices.Concat([]string{"assemble", b.Graph}, b.Options)
	last := Step{Name: "results", Files: all, Texts: emptyStore(), Fetch: true, From: batchOut}
	last.Job = Job{Args: append(slices.Clone(args), "--out", batchOut), Home: buildHome, Outputs: []string{batchOut + "/"}}
	for _, target := range g.Targets() {
		name := "target-" + target
		p.step("/build", Step{Name: name, Files: all, Job: Job{Args: append(slices.Clone(args), "--target", target), Home: buildHome, Outputs: []string{homeBlobs, homeCached}}}, level())
		last.After = append(last.After, name)
	}
	p.step("/build", last, level())
}

// commands plans a job for each command.
func (p *planner) commands() {
	seen := map[string]bool{}
	for i, c := range p.f.Commands {
		ptr := fmt.Sprintf("/commands/%d", i)
		for _, name := range c.After {
			if !seen[name] {
				p.fault(diag.BatchStep, ptr, fmt.Sprintf("after %q: want a command above", name))
			}
		}
		if seen[c.Name] {
			p.fault(diag.BatchStep, ptr, fmt.Sprintf("second command %q", c.Name))
		}
		seen[c.Name] = true
		p.step(ptr, Step{Name: c.Name, Files: p.files(ptr, append(slices.Clone(c.Files), p.f.Files...)...), After: c.After, Fetch: true, To: c.Name, Job: Job{Args: c.Run, Outputs: c.Outputs}}, c.Needs...)
	}
}
