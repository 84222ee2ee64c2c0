package suite

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/diag"
)

// item is a document of a split.
type item struct {
	id     int // its index
	fields map[string]json.RawMessage
	raw    json.RawMessage
}

// equal reports whether two documents have the same content.
func (d *item) equal(o *item) bool {
	return maps.EqualFunc(d.fields, o.fields, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
}

// read reads the documents to be asked and the pool of examples.
func (t *Task) read(opt Options, list *diag.List) {
	split := t.spec.Test
	if split == "" {
		split = t.spec.Validation
	}
	if split == "" {
		t.fault(list, diag.MissingKey, "", `"test_split" in the document`, "the split whose documents are asked")
		return
	}
	r := reader{t: t, opt: opt, list: list, hash: map[string]string{}}
	t.columns = map[string]bool{}
	t.docs = r.split(split)
	t.original = len(t.docs)
	if t.original == 0 && !list.Failed() {
		t.fault(list, diag.SuiteData, "", "split "+split+" has no documents", "")
	}
	if t.limit > 0 && t.limit < len(t.docs) {
		t.docs = t.docs[:t.limit]
	}
	if t.Shots > 0 && !list.Failed() {
		r.examples(split)
	}
	sum := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(r.hash)) {
		fmt.Fprintf(sum, "%s\n", r.hash[path])
	}
	t.digest = hex.EncodeToString(sum.Sum(nil))
	if list.Failed() {
		return
	}
	if _, err := t.prompts(t.docs[:1]); err != nil { // faults of templates are those of most documents
		t.fault(list, diag.SuiteTemplate, "", err.Error(), "")
	}
}

// reader reads the splits of a task.
type reader struct {
	t    *Task
	opt  Options
	list *diag.List
	hash map[string]string // digests of files by path
}

// examples reads the pool of few-shot examples, by the harness's rules.
func (r *reader) examples(asked string) {
	t := r.t
	c := t.spec.ShotConfig
	split := c.Split
	if split == "" {
		split = t.spec.Fewshot
	}
	t.same = split != "" && split == t.spec.Test
	switch {
	case split != "":
	case c.Samples != nil:
		for i, raw := range c.Samples {
			t.pool = r.add(t.pool, i, raw, "/fewshot_config/samples")
		}
	case t.spec.Training != "":
		split = t.spec.Training
	case t.spec.Validation != "":
		split = t.spec.Validation
	default:
		split = asked
	}
	if split != "" {
		t.pool = r.split(split)
	}
	need := t.Shots
	if t.same {
		need++ // a document is not its own example
	}
	if names, ok := among(c.Sampler, "", "default", "first_n"); !ok {
		t.fault(r.list, diag.SuiteShots, "/fewshot_config/sampler", fmt.Sprintf("sampler %q", c.Sampler), "known: "+strings.TrimPrefix(names, ", "))
	}
	if len(t.pool) < need && !r.list.Failed() {
		t.fault(r.list, diag.SuiteShots, "/num_fewshot", fmt.Sprintf("got %d documents for %d examples", len(t.pool), need), "lower --num-fewshot")
	}
}

// split reads the documents of a split.
func (r *reader) split(name string) (out []*item) {
	files, key := r.files(name)
	for _, file := range files {
		data, err := readData(file)
		if err != nil {
			r.t.fault(r.list, diag.SuiteData, key, fmt.Sprintf("split %s: %v", name, err), "paths are relative to the task file; --data "+name+"=FILE sets another file")
			return nil
		}
		sum := sha256.Sum256(data)
		r.hash[name+" "+file] = name + " " + hex.EncodeToString(sum[:])
		d := json.NewDecoder(bytes.NewReader(data))
		if first := bytes.TrimLeft(data, " \t\r\n"); len(first) > 0 && first[0] == '[' {
			d.Token() // one array of documents
		}
		for d.More() {
			var raw json.RawMessage
			if err := d.Decode(&raw); err != nil && err != io.EOF {
				r.t.fault(r.list, diag.SuiteData, key, fmt.Sprintf("%s: document %d: %v", file, len(out), err), "want JSON lines or one JSON array")
				return nil
			}
			if len(out) == maxDocs {
				r.t.fault(r.list, diag.TooLarge, key, fmt.Sprintf("split %s: more than %d documents", name, maxDocs), "")
				return nil
			}
			if out = r.add(out, len(out), raw, key); out == nil {
				return nil
			}
		}
	}
	return out
}

// add appends a document.
func (r *reader) add(to []*item, id int, raw json.RawMessage, key string) []*item {
	var compact bytes.Buffer
	if json.Compact(&compact, raw) == nil {
		raw = compact.Bytes()
	}
	d := &item{id: id, raw: raw}
	if err := json.Unmarshal(raw, &d.fields); err != nil || d.fields == nil {
		r.t.fault(r.list, diag.SuiteData, key, fmt.Sprintf("document %d: got %.60s, want a JSON object", id, raw), "")
		return nil
	}
	for k := range d.fields {
		r.t.columns[k] = true
	}
	return append(to, d)
}

// files returns the files of a split and the key that names them.
func (r *reader) files(split string) ([]string, string) {
	t := r.t
	for _, name := range []string{t.Name + "/" + split, split} {
		if path, ok := r.opt.Data[name]; ok {
			return []string{path}, ""
		}
	}
	raw, key := t.spec.Files, "/data_files"
	if raw == nil {
		raw, key = t.spec.Kwargs.Files, "/dataset_kwargs/data_files"
	}
	var files []string
	bySplit := map[string]json.RawMessage{}
	switch {
	case raw == nil && filepath.Ext(t.spec.Path) != ".jsonl" && filepath.Ext(t.spec.Path) != ".json":
		t.fault(r.list, diag.SuiteData, "/dataset_path", fmt.Sprintf("dataset %q is not a local file", t.spec.Path), "mm fetches no dataset: download it, then --data "+split+"=FILE")
		return nil, key
	case raw == nil:
		files, key = []string{t.spec.Path}, "/dataset_path"
	case json.Unmarshal(raw, &bySplit) != nil:
		files = texts(raw) // of one split, named train
	case bySplit[split] == nil:
		t.fault(r.list, diag.SuiteData, key, fmt.Sprintf("split %q is absent, got %s", split, strings.Join(slices.Sorted(maps.Keys(bySplit)), ", ")), "")
	default:
		files = texts(bySplit[split])
	}
	for i, f := range files {
		if !filepath.IsAbs(f) {
			files[i] = filepath.Join(filepath.Dir(t.doc.File), filepath.FromSlash(f))
		}
	}
	return files, key
}

// texts returns a text, or a list of texts.
func texts(raw json.RawMessage) []string {
	var one string
	var list []string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	json.Unmarshal(raw, &list) // the schema has checked it
	return list
}
