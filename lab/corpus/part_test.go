package corpus

import (
	"bytes"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// parts builds a data set from n parts, each in a folder with its sources alone.
func parts(t *testing.T, m *Manifest, dir, out string, n int) error {
	t.Helper()
	var files []string
	for i := range n {
		p := Part{i, n}
		alone := t.TempDir()
		for _, s := range p.Sources(m) {
			data, err := os.ReadFile(filepath.Join(dir, s.Path))
			if err == nil {
				err = os.WriteFile(filepath.Join(alone, s.Path), data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		file := filepath.Join(t.TempDir(), "part")
		if err := WritePart(t.Context(), m, p, Options{Dir: alone, Out: file, Threads: 1 + i%3}); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	_, err := Build(t.Context(), m, Options{Dir: t.TempDir(), Out: out, Parts: files})
	return err
}

// files returns the contents of a folder by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(data)
	}
	return out
}

// partManifest returns a manifest of five sources whose documents repeat across sources, and
// the folder of the sources.
func partManifest(t *testing.T, more string) (*Manifest, string) {
	dir := t.TempDir()
	var all string
	for i := range 5 {
		var b strings.Builder
		for j := range 40 {
			fmt.Fprintf(&b, "{\"text\": \"the document %d is about a boat, a mill and the numbers %d and %d; it <ends> here\\u2028 mail a%d@example.org\"}\n", j%30, j%30, (i*j)%7, j)
		}
		all += source(t, dir, fmt.Sprintf("s%d.jsonl", i), b.String(), "")
	}
	return manifest(t, all, more), dir
}

// A data set of parts is that of one run, byte for byte.
func TestParts(t *testing.T) {
	for _, more := range []string{"", "dedup: {near: {threshold: 0.7}}\npii: {action: scrub}\nsplits: {held_out: 0.2}\n", "dedup: {exact: false}\npii: {action: drop, kinds: [card]}\n"} {
		m, dir := partManifest(t, more)
		one := filepath.Join(t.TempDir(), "one")
		if _, err := Build(t.Context(), m, Options{Dir: dir, Out: one}); err != nil {
			t.Fatal(err)
		}
		want := contents(t, one)
		for _, n := range []int{1, 2, 5, 7} {
			out := filepath.Join(t.TempDir(), "out")
			if err := parts(t, m, dir, out, n); err != nil {
				t.Fatal(err)
			}
			got := contents(t, out)
			for name := range want {
				if got[name] != want[name] {
					t.Errorf("%q, %d parts: %s differs", more, n, name)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d parts: got %d files, want %d", n, len(got), len(want))
			}
		}
	}
}

// Faults of sources in parts are those of one run.
func TestPartFaults(t *testing.T) {
	for _, more := range []string{"where: name == \"x\"\n", "faults: skip\n", ""} {
		dir := t.TempDir()
		m := manifest(t, source(t, dir, "a.jsonl", "{\"text\": \"fine\"}\n{\"text\": 3}\n{\n", "")+source(t, dir, "b.jsonl", "{\"text\": \"other\"}\n", "")+
			source(t, dir, "c.jsonl", "{\"text\": \"third\"}\n", ""), more)
		m.Sources[2].SHA256 = strings.Repeat("0", 64)
		_, err := Build(t.Context(), m, Options{Dir: dir, Out: filepath.Join(t.TempDir(), "out")})
		got := parts(t, m, dir, filepath.Join(t.TempDir(), "out"), 3)
		if err == nil || got == nil || err.Error() != got.Error() {
			t.Errorf("%q: got %v, want %v", more, got, err)
		}
	}
}

// Parts of another manifest, in another order, missing, cut or changed are refused.
func TestPartsRefused(t *testing.T) {
	m, dir := partManifest(t, "")
	other, _ := partManifest(t, "min_chars: 3\n")
	at := t.TempDir()
	var files []string
	for i := range 2 {
		files = append(files, filepath.Join(at, fmt.Sprint(i)))
		if err := WritePart(t.Context(), m, Part{i, 2}, Options{Dir: dir, Out: files[i]}); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	text := unpack(t, data)
	write := func(data []byte) string {
		f, err := os.CreateTemp(at, "")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Write(data); err != nil {
			t.Fatal(err)
		}
		return f.Name()
	}
	packed := func(s string) string { return write(pack(t, s)) }
	lines := strings.SplitAfter(text, "\n")
	for _, c := range []struct {
		m     *Manifest
		files []string
		want  string
	}{
		{other, files, "of the manifest sha256:"},
		{m, []string{files[1], files[0]}, "sources 2 to 5, want those from 0 of 5"},
		{m, files[:1], "parts: got 2 sources, want the 5 of the manifest"},
		{m, []string{files[0], files[0]}, "sources 0 to 2, want those from 2 of 5"},
		{m, []string{files[0], write(data[:len(data)/2])}, "unexpected EOF"},
		{m, []string{files[0], write([]byte("no"))}, "unexpected EOF"},
		{m, []string{files[0], packed("")}, "no first line"},
		{m, []string{files[0], packed(strings.Join(lines[:len(lines)-2], ""))}, "ends in source 4, want 5"},
		{m, []string{files[0], packed(text + lines[1])}, "block of source 2, want 5"},
		{m, []string{files[0], packed(strings.Replace(text, `"version":1`, `"version":2`, 1))}, "version 2, want 1"},
		{m, []string{files[0], packed(strings.Replace(text, `"version":1`, `"version":1,"x":1`, 1))}, "unknown field"},
		{m, []string{files[0], packed(strings.Replace(text, `"hash":"`, `"hash":"0`, 1))}, "invalid hash"},
		{m, []string{files[0], packed(strings.Replace(text, `"line":`, `"keys":[1],"line":`, 1))}, "got 1 keys"},
		{m, []string{files[0], packed(strings.Replace(text, `"seen":[true]`, `"seen":[]`, 1))}, "got 0 columns, want 1"},
		{m, []string{files[0], packed(lines[0] + `{"source":2,"end":true,"counts":{"rows":0,"kept":0},"faults":[{"code":"MM9","row":0,"detail":""}]}` + "\n")}, `unknown fault "MM9"`},
	} {
		out := filepath.Join(at, "out")
		_, err := Build(t.Context(), c.m, Options{Dir: dir, Out: out, Parts: c.files})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%q: the data set exists", c.want)
		}
	}
	for s, ok := range map[string]bool{"1/1": true, fmt.Sprintf("1/%d", maxParts): true, fmt.Sprintf("1/%d", maxParts+1): false, "0/2": false, "3/2": false, "1": false, "a/2": false} {
		if _, err := ParsePart(s); (err == nil) != ok {
			t.Errorf("part %q: %v", s, err)
		}
	}
}

func unpack(t testing.TB, data []byte) string {
	t.Helper()
	z, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	out, err := z.DecodeAll(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func pack(t testing.TB, s string) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	return z.EncodeAll([]byte(s), nil)
}

// kept is a sink that counts.
type kept struct{ docs, ends, faults int }

func (k *kept) add(_ int, o *outcome) error { k.docs += len(o.docs); return nil }
func (k *kept) fault(int, fault)            { k.faults++ }
func (k *kept) end(int) error               { k.ends++; return nil }

// A hostile part is an error or has documents as a part has them.
func FuzzPart(f *testing.F) {
	m, list := Parse("m.data.yaml", []byte("version: 1\nname: m\nsources:\n  - {id: a, path: a.jsonl, sha256: "+strings.Repeat("a", 64)+", license: MIT}\n"))
	if list.Failed() {
		f.Fatal(list.Err())
	}
	w, err := newWorker(m)
	if err != nil {
		f.Fatal(err)
	}
	head := fmt.Sprintf(`{"version":1,"manifest":%q,"from":0,"end":1}`+"\n", m.LineageDigest())
	block := `{"source":0,"counts":{"rows":1,"kept":0},"seen":[true],"docs":[{"hash":"` + strings.Repeat("0", 64) + `","line":{"id":"a"}}]}` + "\n"
	for _, s := range []string{head + block + `{"source":0,"end":true,"counts":{"rows":0,"kept":0}}`, head, "", head + block} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		k := &kept{}
		end, err := joinPart(bytes.NewReader(pack(t, string(data))), w, 0, k)
		if err == nil && (end != 1 && end != 0 || k.ends+k.faults < end) {
			t.Errorf("end %d of %d sources", end, k.ends)
		}
		_, _ = joinPart(bytes.NewReader(slices.Clone(data)), w, 0, &kept{}) // not zstd
	})
}

// A part with a window or a line beyond the limits is refused; a row of the largest size fits.
func TestPartLimits(t *testing.T) {
	m, _ := partManifest(t, "")
	w, err := newWorker(m)
	if err != nil {
		t.Fatal(err)
	}
	if maxPartLine < 6*maxRow || maxPartHead < 8<<20 {
		t.Error("a row of the largest size does not fit")
	}
	for n, want := range map[int]string{maxPartHead: "no first line", 2 * maxPartHead: "window size exceeded"} {
		head := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, byte(bits.Len(uint(n))-11) << 3, 0x01, 0, 0} // an empty frame with a window of n bytes
		if _, err := joinPart(bytes.NewReader(head), w, 0, &kept{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a window of %d bytes: got %v, want %q", n, err, want)
		}
	}
}
