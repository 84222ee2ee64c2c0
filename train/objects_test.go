package train

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	gocmp "github.com/google/go-cmp/cmp"
)

// store holds objects by address.
type store map[string]string

var errGone = errors.New("gone")

// Expand implements [Objects].
func (s store) Expand(_ context.Context, address string) (all []string, err error) {
	for name := range s {
		if name == address || strings.HasSuffix(address, "/") && strings.HasPrefix(name, address) {
			all = append(all, name)
		}
	}
	slices.SortFunc(all, cmp.Compare)
	if len(all) == 0 {
		err = fmt.Errorf("%s: %w", address, errGone)
	}
	return all, err
}

// Version implements [Objects].
func (s store) Version(_ context.Context, address string) (string, error) {
	if _, ok := s[address]; !ok {
		return "", fmt.Errorf("%s: %w", address, errGone)
	}
	return digestOf(s[address]), nil
}

// Open implements [Objects].
func (s store) Open(_ context.Context, address string) (io.ReadCloser, error) {
	text, ok := s[address]
	if !ok {
		return nil, fmt.Errorf("%s: %w", address, errGone)
	}
	return io.NopCloser(iotest.OneByteReader(strings.NewReader(text))), nil
}

func digestOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// split returns the stories as the objects of a prefix.
func split(text string) store {
	parts := strings.SplitAfter(text, "<|endoftext|>\n")
	n := len(parts) / 2
	return store{"s3://b/set/1.txt": strings.Join(parts[:n], ""), "s3://b/set/2.txt": strings.Join(parts[n:], ""), "s3://b/other": "x"}
}

// Objects yield the corpus of the same files, with the digest of each in the lineage.
func TestObjects(t *testing.T) {
	dir := t.TempDir()
	cfg := smallConfig(t, dir)
	want := prepare(t, cfg, dir)
	objects := split(stories(200))
	cfg.Data.Files = []string{"s3://b/set/"}
	got, err := PrepareFrom(t.Context(), cfg, dir, objects)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if got.Text != want.Text || got.Vocabulary != want.Vocabulary || got.Train.Digest() != want.Train.Digest() {
		t.Error("the corpus of objects differs from that of the file")
	}
	var lineage []Lineage
	for _, name := range []string{"s3://b/set/1.txt", "s3://b/set/2.txt"} {
		lineage = append(lineage, Lineage{Digest: "sha256:" + digestOf(objects[name]), Name: name})
	}
	if d := gocmp.Diff(lineage, got.Lineage); d != "" {
		t.Error(d)
	}
}

func TestObjectsRefused(t *testing.T) {
	dir := t.TempDir()
	cfg := smallConfig(t, dir)
	for name, c := range map[string]struct {
		change func(*Config)
		none   bool // no store
		want   string
	}{
		"no store": {func(c *Config) { c.Data.Files = []string{"gs://b/x"} }, true, "gs://b/x: got the address of a bucket, want a path"},
		"manifest": {func(c *Config) { c.Data.Files, c.Data.Manifest = nil, "gs://b/x" }, true, "gs://b/x: got the address of a bucket"},
		"missing":  {func(c *Config) { c.Data.Files = []string{"s3://b/none/"} }, false, "s3://b/none/: gone"},
		"both parts": {func(c *Config) {
			c.Data.Files, c.Data.HeldFiles = []string{"s3://b/set/"}, []string{"s3://b/set/2.txt"}
		}, false, "s3://b/set/2.txt is in files and in held_out_files"},
		"uint16": {func(c *Config) {
			c.Data = Data{Files: []string{"s3://b/set/1.txt"}, Format: uint16Format}
			c.Tokenizer = Tokenizer{File: "x"}
		}, false, "an object requires cache"},
	} {
		changed := cfg
		c.change(&changed)
		var objects Objects = split(stories(20))
		if c.none {
			objects = nil
		}
		if _, err := PrepareFrom(t.Context(), changed, dir, objects); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	cfg.Base, cfg.Tokenizer = "s3://b/base", Tokenizer{File: "s3://b/tok"}
	if err := cfg.Validate(); err == nil || len(Faults(err)) != 2 {
		t.Errorf("a base and a tokenizer in a bucket: %v", err)
	}
	for name, want := range map[string]bool{"s3://b/k": true, "a/b://c": false, "c:/x": false, "x.y://z": false, "://x": false, "a.txt": false} {
		if IsAddress(name) != want {
			t.Errorf("IsAddress(%q) = %t", name, !want)
		}
	}
}

// A data set of mm data build below a prefix is compared with its lineage, to the
// last byte of each file.
func TestManifestOfObjects(t *testing.T) {
	text := `{"text":"a cat sat"}` + "\n" + `{"text":"a dog ran"}` + "\n"
	lineage := fmt.Sprintf(`{"digest":"sha256:abc","name":"n","format":"jsonl","keys":["text"],"files":[{"split":"train","file":"train.jsonl","sha256":%q}]}`, digestOf(text))
	cfg := Config{Model: smallConfig(t, t.TempDir()).Model, Data: Data{Manifest: "gs://b/set/"}, Tokenizer: Tokenizer{Control: []string{"<e>"}, EOS: "<e>"}}
	objects := store{"gs://b/set/lineage.json": lineage, "gs://b/set/train.jsonl": text}
	c, err := PrepareFrom(t.Context(), cfg, "", objects)
	if err != nil || gocmp.Diff([]Lineage{{Digest: "sha256:abc", Name: "n"}}, c.Lineage) != "" {
		t.Fatalf("got %v, %v", c, err)
	}
	c.Close()
	objects["gs://b/set/train.jsonl"] = strings.Replace(text, "dog", "dot", 1)
	if _, err := PrepareFrom(t.Context(), cfg, "", objects); err == nil || !strings.Contains(err.Error(), "gs://b/set/train.jsonl differs from its lineage") {
		t.Errorf("a changed file: %v", err)
	}
	objects["gs://b/set/lineage.json"] = lineage + strings.Repeat(" ", maxLineage)
	if _, err := PrepareFrom(t.Context(), cfg, "", objects); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a large lineage: %v", err)
	}
}

// Token ids are copied to the cache once for each version of their object.
func TestTokenObjects(t *testing.T) {
	dir := t.TempDir()
	tok := prepare(t, smallConfig(t, dir), dir).Tokenizer
	if err := WriteTokenizer(filepath.Join(dir, "tok.gguf"), tok); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Model: smallConfig(t, dir).Model, Tokenizer: Tokenizer{File: "tok.gguf"},
		Data: Data{Files: []string{"s3://b/ids"}, HeldFiles: []string{"s3://b/held"}, Format: uint16Format, Cache: "cache"}}
	objects := store{"s3://b/ids": "\x05\x00\x06\x00\x07\x00", "s3://b/held": "\x05\x00\x06\x00"}
	for range 2 {
		c, err := PrepareFrom(t.Context(), cfg, dir, objects)
		if err != nil {
			t.Fatal(err)
		}
		if c.Train.Len() != 3 || c.Held.Len() != 2 || len(c.Lineage) != 2 || c.Lineage[0] != (Lineage{Digest: "sha256:" + digestOf(objects["s3://b/ids"]), Name: "s3://b/ids"}) {
			t.Errorf("%d and %d ids, lineage %v", c.Train.Len(), c.Held.Len(), c.Lineage)
		}
		c.Close()
	}
	objects["s3://b/ids"] = "\x05\x00\x06\x00"
	c, err := PrepareFrom(t.Context(), cfg, dir, objects)
	if err != nil || c.Train.Len() != 2 {
		t.Fatalf("another version: %v", err)
	}
	c.Close()
	if all, err := os.ReadDir(filepath.Join(dir, "cache")); err != nil || len(all) != 3 {
		t.Errorf("%d files in the cache, %v, want 3", len(all), err)
	}
}

// A run resumes with the same objects alone; others are named.
func TestResumeObjects(t *testing.T) {
	dir := t.TempDir()
	cfg := smallConfig(t, dir)
	cfg.Data.Files, cfg.Stop.Steps, cfg.SaveEvery = []string{"s3://b/set/"}, 2, 1
	objects := split(stories(200))
	run := func(resume bool) error {
		corpus, err := PrepareFrom(t.Context(), cfg, dir, objects)
		if err != nil {
			return err
		}
		defer corpus.Close()
		tr, err := RunFolder(t.Context(), cfg, corpus, resume, Options{Dir: filepath.Join(dir, "run"), From: dir})
		if err == nil {
			err = tr.Close()
		}
		return err
	}
	if err := run(false); err != nil {
		t.Fatal(err)
	}
	cfg.Stop.Steps = 4
	second := objects["s3://b/set/2.txt"]
	objects["s3://b/set/2.txt"] = string(bytes.ToUpper([]byte(second)))
	if err := run(true); err == nil || !strings.Contains(err.Error(), "s3://b/set/2.txt: got sha256:") || strings.Contains(err.Error(), "1.txt") {
		t.Errorf("a changed object: %v", err)
	}
	delete(objects, "s3://b/set/2.txt")
	objects["s3://b/set/3.txt"] = second
	if err := run(true); err != nil {
		t.Errorf("an object with another name and the same text: %v", err)
	}
	objects["s3://b/set/4.txt"] = "more<|endoftext|>"
	if err := run(true); err == nil || !strings.Contains(err.Error(), "s3://b/set/4.txt is new") {
		t.Errorf("a new object: %v", err)
	}
}
