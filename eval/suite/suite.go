// Package suite asks a model the tasks of evaluation suites.
//
// A task is a YAML file with a subset of the keys of lm-evaluation-harness 0.4, so that
// the harness's own task files are read: templates are Jinja, documents are local JSON or
// JSON lines. Other keys are refused by name; nothing is skipped. [Load] reads
// tasks with their documents, [Task.Ask] makes the prompts, with the same few-shot
// examples as the harness, and measures the answers of a [Model], and [Results] are
// written in the harness's form with an interval for every figure.
package suite

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/schemas"
)

// Options configures [Load].
type Options struct {
	// Data replaces the files of splits: the path by the name of the split, or by
	// TASK/SPLIT.
	Data  map[string]string
	Limit int  // documents of a task; 0: all
	Shots *int // examples before each question; nil: the task's
	Seed  uint32
}

// DefaultSeed is the harness's seed of few-shot examples.
const DefaultSeed = 1234

const (
	maxTasks   = 512     // of a suite
	maxInclude = 8       // files that include each other
	maxData    = 1 << 26 // bytes of a file of documents
	maxDocs    = 1 << 20 // documents of a split
)

// Load reads the tasks of files and folders, in order, those of a folder by name. A
// folder's YAML files that only others include have names that start with _.
func Load(paths []string, opt Options) (tasks []*Task, list diag.List) {
	seen := map[string]string{}
	for _, path := range paths {
		files, found := taskFiles(path)
		list = append(list, found...)
		for _, f := range files {
			if len(tasks) == maxTasks {
				list.Add(diag.TooLarge, diag.Pos{File: f}, fmt.Sprintf("more than %d tasks", maxTasks), "split the suite")
				return nil, list
			}
			t, found := loadTask(f, opt)
			list = append(list, found...)
			if t == nil {
				continue
			}
			if other, twice := seen[t.Name]; twice {
				list.Add(diag.SuiteTwice, t.doc.Pos("/task"), fmt.Sprintf("%s, also in %s", t.Name, other), "rename one")
			}
			seen[t.Name] = f
			tasks = append(tasks, t)
		}
	}
	if list.Failed() {
		return nil, list
	}
	return tasks, list
}

// taskFiles returns the task files of a path.
func taskFiles(path string) (files []string, list diag.List) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		list.Add(diag.Unreadable, diag.Pos{File: path}, err.Error(), "")
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); (ext == ".yaml" || ext == ".yml") && !strings.HasPrefix(e.Name(), "_") {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if err == nil && len(files) == 0 {
		list.Add(diag.SuiteData, diag.Pos{File: path}, "the folder has no task files", "a task file is YAML")
	}
	return files, list
}

// document reads a task file with the files that it includes: its own keys replace
// theirs. The document is nil if a file has faults.
func document(file string, depth int) (doc *schemas.Document, spec map[string]any, list diag.List) {
	data, list := schemas.ReadFile(file, diag.Unreadable)
	if list.Failed() {
		return nil, nil, list
	}
	doc, found := schemas.Load(schemas.Suite, file, data)
	list = append(list, explained(found)...)
	if doc == nil || list.Failed() {
		return nil, nil, list
	}
	own := map[string]any{}
	if err := doc.Decode(&own); err != nil {
		list.Add(diag.WrongType, doc.Pos(""), err.Error(), "")
		return nil, nil, list
	}
	name, includes := own["include"].(string)
	if !includes {
		return doc, own, list
	}
	if depth == maxInclude {
		list.Add(diag.TooLarge, doc.Pos("/include"), fmt.Sprintf("more than %d files include each other", maxInclude), "a file must not include itself")
		return nil, nil, list
	}
	below, base, found := document(filepath.Join(filepath.Dir(file), filepath.FromSlash(name)), depth+1)
	list = append(list, found...)
	if below == nil {
		return nil, nil, list
	}
	delete(own, "include")
	for k, v := range own {
		base[k] = v
	}
	return doc, base, list
}

// explained names values of Python code, which the harness runs and mm does not.
func explained(list diag.List) (out diag.List) {
	for _, d := range list {
		if d.Code == diag.Tag && strings.Contains(d.Detail, "!function") {
			out.Add(diag.SuiteFunction, d.Pos, d.Detail, "write the value as a template, or prepare the documents")
			continue
		}
		out = append(out, d)
	}
	return out
}

// loadTask reads a task with its documents.
func loadTask(file string, opt Options) (*Task, diag.List) {
	doc, spec, list := document(file, 0)
	if doc == nil {
		return nil, list
	}
	t := &Task{doc: doc, seed: opt.Seed, limit: opt.Limit}
	raw, err := json.Marshal(spec)
	if err == nil {
		t.config, err = raw, json.Unmarshal(raw, &t.spec)
	}
	if err != nil {
		list.Add(diag.WrongType, doc.Pos(""), err.Error(), "")
		return nil, list
	}
	t.Name = t.spec.Task
	if t.Name == "" {
		list.Add(diag.MissingKey, doc.Pos(""), `"task" in the document`, "the name of the task")
		return nil, list
	}
	if t.Shots = t.spec.Shots; opt.Shots != nil {
		t.Shots = *opt.Shots
	}
	t.compile(&list)
	if !list.Failed() {
		t.read(opt, &list)
	}
	if list.Failed() {
		return nil, list
	}
	return t, list
}

// fault adds a diagnostic about a key of the task.
func (t *Task) fault(list *diag.List, code diag.Code, key, detail, hint string) {
	list.Add(code, t.doc.Pos(key), detail, hint)
}

// ReadFile reads a file of documents.
func readData(path string) ([]byte, error) { return fsx.ReadFile(path, maxData) }

// among reports whether a name is one of a list, and else the list as text.
func among(name string, names ...string) (string, bool) {
	return strings.Join(names, ", "), slices.Contains(names, name)
}
