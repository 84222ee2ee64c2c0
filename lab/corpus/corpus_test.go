package corpus

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"mm-abi.org/mm/internal/diag"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

// write writes a file and returns its digest.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
}

// source writes a file and returns a source of a manifest with further keys.
func source(t *testing.T, dir, name, text, keys string) string {
	t.Helper()
	id := strings.ReplaceAll(name, ".", "-")
	return fmt.Sprintf("  - {id: %s, path: %s, sha256: %s, license: MIT%s}\n", id, name, write(t, dir, name, text), keys)
}

// manifest parses a manifest of sources with further lines.
func manifest(t *testing.T, sources, lines string) *Manifest {
	t.Helper()
	m, list := Parse("m.data.yaml", []byte("version: 1\nname: m\nsources:\n"+sources+lines))
	if list.Failed() {
		t.Fatal(list.Err())
	}
	return m
}

// lines returns the documents of a split.
func lines(t *testing.T, out, split string) (all []map[string]any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(out, split+".jsonl"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var v map[string]any
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, v)
	}
	return all
}

func texts(docs []map[string]any) (all []string) {
	for _, d := range docs {
		all = append(all, d["text"].(string))
	}
	return all
}

// codes returns the codes of the diagnostics of an error.
func codes(err error) (all []diag.Code) {
	list, _ := diag.From(err)
	for _, d := range list {
		all = append(all, d.Code)
	}
	return all
}

func TestBuild(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	m := manifest(t, source(t, dir, "a.jsonl", `{"body":"One  two","n":1}`+"\n\n"+`{"body":"three","n":2}`+"\n"+`{"n":3,"body":"ONE TWO"}`, ", fields: {text: body}, where: 'n < 9'")+
		source(t, dir, "b.txt", "four\nlines<|endoftext|> <|endoftext|>a@b.example.com", ""), "pii: {action: scrub}\nmin_chars: 4\n")
	l, err := Build(t.Context(), m, Options{Dir: dir, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"One  two", "three", "four\nlines", "<EMAIL>"}, texts(lines(t, out, Train))); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]Counts{{Rows: 3, Duplicate: 1, Kept: 2}, {Rows: 2, Kept: 2}}, []Counts{l.Sources[0].Counts, l.Sources[1].Counts}); d != "" {
		t.Error(d)
	}
	if l.License != "MIT" || l.Sources[1].PII["email"] != 1 || l.Verify(out) != nil {
		t.Errorf("%+v", l)
	}
	again, err := Build(t.Context(), m, Options{Dir: dir, Out: out})
	if err != nil || !again.Unchanged || again.Digest != l.Digest {
		t.Errorf("again: %+v, %v", again, err)
	}
	edited := filepath.Join(out, "train.jsonl")
	before, err := os.ReadFile(edited)
	if err == nil {
		err = os.WriteFile(edited, append(slices.Clone(before), '\n'), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Build(t.Context(), m, Options{Dir: dir, Out: out}); !slices.Equal(codes(err), []diag.Code{diag.DataChanged}) || !strings.Contains(err.Error(), edited) {
		t.Errorf("an edited file: got %v", err)
	}
	if l, err := Build(t.Context(), m, Options{Dir: dir, Out: out, Force: true}); err != nil || l.Unchanged || l.Verify(out) != nil {
		t.Errorf("an edited file is replaced: %v", err)
	}
	m.MinChars = 5
	if _, err := Build(t.Context(), m, Options{Dir: dir, Out: out}); !slices.Equal(codes(err), []diag.Code{diag.DataTaken}) {
		t.Errorf("another manifest: %v", err)
	}
	if l, err := Build(t.Context(), m, Options{Dir: dir, Out: out, Force: true}); err != nil || l.Digest == again.Digest {
		t.Errorf("force: %v", err)
	}
	write(t, dir, "a.jsonl", "{}")
	if err := os.RemoveAll(out); err != nil {
		t.Fatal(err)
	}
	if _, err := Build(t.Context(), m, Options{Dir: dir, Out: out}); !slices.Contains(codes(err), diag.SourceDigest) {
		t.Errorf("changed source: %v", err)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, ".*")); len(names) > 0 {
		t.Errorf("left %v", names)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a failed build left its folder")
	}
}

// many returns JSON lines, a third of them duplicates of others.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"text":"document %d of many, with %d words and mail x%d@example.com"}`+"\n", i%(2*n/3), i%(2*n/3)%97, i%7)
	}
	return b.String()
}

// digests returns the digests of the files of a data set.
func digests(l *Lineage) (all []string) {
	for _, f := range l.Files {
		all = append(all, f.Split+" "+f.SHA256)
	}
	return all
}

func TestThreads(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	dir := t.TempDir()
	m := manifest(t, source(t, dir, "a.jsonl", many(30000), "")+source(t, dir, "b.jsonl", many(100), ", weight: 2.5"),
		"pii: {action: scrub}\ndedup: {near: {threshold: 0.9}}\nsplits: {held_out: 0.1, test: 0.1}\n")
	var want []string
	for _, threads := range []int{1, 2, 8} {
		l, err := Build(t.Context(), m, Options{Dir: dir, Out: filepath.Join(dir, fmt.Sprint(threads)), Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = digests(l)
		}
		if d := cmp.Diff(want, digests(l)); d != "" || len(want) != 3 {
			t.Errorf("%d threads: %s", threads, d)
		}
	}
}

// Further sources do not move documents between splits.
func TestSplitsAreStable(t *testing.T) {
	dir := t.TempDir()
	first := source(t, dir, "a.jsonl", many(900), "")
	more := first + source(t, dir, "b.jsonl", strings.ReplaceAll(many(900), "document", "page"), "")
	at := map[string]string{}
	for i, sources := range []string{first, more} {
		out := filepath.Join(dir, fmt.Sprint(i))
		if _, err := Build(t.Context(), manifest(t, sources, "splits: {held_out: 0.2, test: 0.1}\n"), Options{Dir: dir, Out: out}); err != nil {
			t.Fatal(err)
		}
		n := map[string]int{}
		for _, split := range []string{Train, HeldOut, Test} {
			for _, text := range texts(lines(t, out, split)) {
				n[split]++
				if was, ok := at[text]; ok && was != split {
					t.Errorf("%q moved from %s to %s", text, was, split)
				}
				at[text] = split
			}
		}
		if total := n[Train] + n[HeldOut] + n[Test]; n[HeldOut] < total/7 || n[HeldOut] > total/4 || n[Test] < total/14 || n[Test] > total/7 {
			t.Errorf("splits %v", n)
		}
	}
}

// Similar documents never lie in two splits.
func TestNearDoNotStraddle(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	for i := range 200 {
		words := strings.Fields(strings.Repeat(fmt.Sprintf("a%d b%d c%d d%d e%d ", i, i+1, i*3, i*7, i*11), 12))
		for k := range words {
			words[k] += fmt.Sprint(k)
		}
		for c := range 3 {
			words[c*20] = fmt.Sprint("changed", c)
			fmt.Fprintf(&b, `{"text":%q}`+"\n", strings.Join(words, " "))
		}
	}
	out := filepath.Join(dir, "out")
	l, err := Build(t.Context(), manifest(t, source(t, dir, "a.jsonl", b.String(), ""), "dedup: {near: {threshold: 0.7}}\nsplits: {held_out: 0.3}\n"), Options{Dir: dir, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	if c := l.Sources[0].Counts; c.Near != 400 || c.Kept != 200 || l.Dedup.Similar < 400 {
		t.Errorf("%+v %+v", c, l.Dedup)
	}
}

func TestCompression(t *testing.T) {
	dir := t.TempDir()
	text := many(50)
	var gz, zs bytes.Buffer
	z := gzip.NewWriter(&gz)
	z.Write([]byte(text))
	z.Close()
	e, err := zstd.NewWriter(&zs)
	if err != nil {
		t.Fatal(err)
	}
	e.Write([]byte(text))
	e.Close()
	var want []string
	for i, s := range []string{source(t, dir, "a.jsonl", text, ""), source(t, dir, "a.jsonl.gz", gz.String(), ""), source(t, dir, "a.jsonl.zst", zs.String(), "")} {
		out := filepath.Join(dir, fmt.Sprint(i))
		if _, err := Build(t.Context(), manifest(t, s, ""), Options{Dir: dir, Out: out}); err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = texts(lines(t, out, Train))
		}
		if d := cmp.Diff(want, texts(lines(t, out, Train))); d != "" {
			t.Error(d)
		}
	}
	for name, data := range map[string]string{"c.jsonl.gz": gz.String()[:100], "d.jsonl.zst": zs.String()[:100], "e.jsonl.gz": "no gzip"} {
		if _, err := Build(t.Context(), manifest(t, source(t, dir, name, data, ""), ""), Options{Dir: dir, Out: filepath.Join(dir, "x")}); !slices.Contains(codes(err), diag.SourceFile) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConversations(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	m := manifest(t, source(t, dir, "a.jsonl", `{"messages":[{"role":"user","content":"I am ann@example.com"},{"role":"assistant","content":"Hi","n":1.5}]}`+"\n", ", fields: {messages: messages}"), "pii: {action: scrub}\n")
	l, err := Build(t.Context(), m, Options{Dir: dir, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	want := []any{map[string]any{"role": "user", "content": "I am <EMAIL>"}, map[string]any{"role": "assistant", "content": "Hi", "n": 1.5}}
	if d := cmp.Diff(want, lines(t, out, Train)[0]["messages"]); d != "" || l.Format != "chat" {
		t.Error(d, l.Format)
	}
}

func TestPolicyDrop(t *testing.T) {
	dir := t.TempDir()
	rows := `{"text":"call 212-555-0199 or mail"}` + "\n" + `{"text":"nothing here"}` + "\n"
	for action, want := range map[string]int{"drop": 1, "keep": 2} {
		out := filepath.Join(dir, action)
		l, err := Build(t.Context(), manifest(t, source(t, dir, "a.jsonl", rows, ""), "pii: {action: "+action+"}\n"), Options{Dir: dir, Out: out})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(lines(t, out, Train)); n != want || l.Sources[0].PII["phone"] != 1 || contains(fmt.Sprint(l), "212-555") {
			t.Errorf("%s: %d documents, %+v", action, n, l.Sources[0])
		}
	}
}

// Each hostile row is a fault with its code and line, or is skipped and counted.
func TestHostileRows(t *testing.T) {
	dir := t.TempDir()
	deep := func(n int) string {
		return `{"text":"x","d":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}"
	}
	for row, want := range map[string]diag.Code{
		"{":                       diag.RowFault,
		`[1]`:                     diag.RowFault,
		`{"text":"a"} x`:          diag.RowFault,
		`{"text":"a","text":"b"}`: diag.RowFault,
		`{"text":"\ud800"}`:       diag.RowText,
		`{"text":"\u0000"}`:       diag.RowText,
		"{\"text\":\"\xff\"}":     diag.RowText,
		"{\"text\":\"\x00\"}":     diag.RowFault,
		`{"text":1}`:              diag.SourceColumn,
		`{"other":"x"}`:           diag.SourceColumn,
		`{"text":"x","n":"y"}`:    diag.FilterFault,
		`{"text":"x","n":1e999}`:  diag.RowLimit,
		deep(maxDepth):            diag.RowLimit,
		`{"text":"` + strings.Repeat("a", maxRow) + `"}`: diag.RowLimit,
	} {
		rows := `{"text":"good","n":1}` + "\n" + row + "\n" + `{"text":"end","n":1}`
		s := source(t, dir, "a.jsonl", rows, ", where: '(n ?? 0) >= 0'")
		_, err := Build(t.Context(), manifest(t, s, ""), Options{Dir: dir, Out: filepath.Join(dir, "out")})
		list, _ := diag.From(err)
		if len(list) != 1 || list[0].Code != want || list[0].Pos.Line != 2 || list[0].Pos.File != "a.jsonl" {
			t.Errorf("%.60s: got %v, want %s on line 2", row, err, want)
		}
		l, err := Build(t.Context(), manifest(t, s, "faults: skip\n"), Options{Dir: dir, Out: filepath.Join(dir, "out")})
		if err != nil || l.Sources[0].Counts != (Counts{Rows: 3, Faulty: 1, Kept: 2}) {
			t.Errorf("%.60s: skipped: %+v, %v", row, l, err)
		}
		os.RemoveAll(filepath.Join(dir, "out"))
	}
	good := deep(maxDepth-1) + "\n" + `{"text":"` + strings.Repeat("a", maxRow-len(`{"text":""}`)) + `"}`
	if _, err := Build(t.Context(), manifest(t, source(t, dir, "b.jsonl", good, ""), ""), Options{Dir: dir, Out: filepath.Join(dir, "good")}); err != nil {
		t.Error(err)
	}
}

// A gigabyte without the end of a line takes a bounded memory.
func TestEndlessLine(t *testing.T) {
	s := &splitter{r: io.MultiReader(io.LimitReader(endless{}, 1<<30), strings.NewReader("\nend\n")), separator: []byte("\n")}
	b, err := s.next()
	if err != nil || !b.long || b.first != 1 {
		t.Fatalf("%v %v", b.long, err)
	}
	if b, err = s.next(); err != nil || string(b.data) != "end\n" || b.first != 2 {
		t.Fatalf("%.20q %d %v", b.data, b.first, err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestLinks(t *testing.T) {
	dir := t.TempDir()
	s := source(t, dir, "a.jsonl", many(3), "")
	if err := os.Rename(filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "b.jsonl")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("b.jsonl", filepath.Join(dir, "a.jsonl")); err != nil {
		t.Skip(err)
	}
	for range 2 {
		if _, err := Build(t.Context(), manifest(t, s, ""), Options{Dir: dir, Out: filepath.Join(dir, "out")}); !slices.Equal(codes(err), []diag.Code{diag.SourceFile}) {
			t.Errorf("got %v", err)
		}
		os.Remove(filepath.Join(dir, "a.jsonl"))
	}
}

func TestCancel(t *testing.T) {
	dir := t.TempDir()
	m := manifest(t, source(t, dir, "a.jsonl", many(60000), ""), "")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Build(ctx, m, Options{Dir: dir, Out: filepath.Join(dir, "out"), Progress: func(int64, int64) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left %v", entries)
	}
}

func TestEmpty(t *testing.T) {
	dir := t.TempDir()
	for s, want := range map[string]diag.Code{
		source(t, dir, "a.jsonl", many(3), ", where: 'len(text) > 999'"): diag.DataEmpty,
		source(t, dir, "b.jsonl", many(3), ", where: 'absent == nil'"):   diag.SourceColumn,
		source(t, dir, "c.jsonl", "", ""):                                diag.DataEmpty,
	} {
		if _, err := Build(t.Context(), manifest(t, s, ""), Options{Dir: dir, Out: filepath.Join(dir, "out")}); !slices.Contains(codes(err), want) {
			t.Errorf("%s: got %v, want %s", s, err, want)
		}
	}
}

func TestManifestFaults(t *testing.T) {
	const sum = "sha256: ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
	for text, want := range map[string]diag.Code{
		"{id: a, path: a.jsonl, " + sum + ", license: GPL-3.0-only}":                                           diag.SourceLicense,
		"{id: a, path: a.jsonl, " + sum + ", license: LicenseRef-Own}":                                         diag.SourceLicense,
		"{id: a, path: a.bin, " + sum + ", license: MIT}":                                                      diag.SourceFile,
		"{id: a, path: a.parquet.gz, " + sum + ", license: MIT}":                                               diag.SourceFile,
		"{id: a, path: ../a.jsonl, " + sum + ", license: MIT}":                                                 diag.BadPath,
		"{id: a, path: /a.jsonl, " + sum + ", license: MIT}":                                                   diag.BadPath,
		"{id: a, path: a.jsonl, sha256: ff, license: MIT}":                                                     diag.WrongForm,
		"{id: a, path: a.jsonl, " + sum + ", license: MIT, separator: x}":                                      diag.NotAllowed,
		"{id: a, path: a.jsonl, " + sum + ", license: MIT, fields: {prompt: p}}":                               diag.NotAllowed,
		"{id: a, path: a.txt, " + sum + ", license: MIT, fields: {text: body}}":                                diag.SourceColumn,
		"{id: a, path: a.jsonl, " + sum + ", license: MIT, where: 'a ='}":                                      diag.FilterFault,
		"{id: a, path: a.txt, " + sum + ", license: MIT}\n  - {id: a, path: b.txt, " + sum + ", license: MIT}": diag.SourceTwice,
		"{id: a, path: a.txt, " + sum + ", license: MIT}\nsplits: {held_out: 0.5, test: 0.5}":                  diag.SplitShares,
		"{id: a, path: a.txt, " + sum + ", license: MIT}\nmin_chars: 9\nmax_chars: 3":                          diag.OutOfRange,
	} {
		_, list := Parse("m.data.yaml", []byte("version: 1\nname: m\nsources:\n  - "+text+"\n"))
		if !slices.Equal(codes(list.Err()), []diag.Code{want}) || list[0].Pos.Line < 4 {
			t.Errorf("%s: got %v, want %s", text, list, want)
		}
	}
	if _, list := Parse("m.data.yaml", []byte("version: 1\nname: m\nallow: [A, B, C]\nsources:\n  - {id: a, path: a.txt, "+sum+", license: GPL-3.0-only, decision: D1}\n")); list.Failed() {
		t.Error(list)
	}
}
