package runner

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/talk"
)

// keptTest tests a cache of sequences with processes that are runners.
type keptTest struct {
	*testing.T
	dir, cache string
	secret     []byte
	limit      int64
	tokens     int // of an answer; 0: 6

	mu       sync.Mutex
	reported []string
}

func newKept(t *testing.T) *keptTest {
	k := &keptTest{T: t, dir: t.TempDir(), cache: filepath.Join(t.TempDir(), "cache", "sequences"), secret: bytes.Repeat([]byte{7}, SecretSize)}
	if err := seed.Write(filepath.Join(k.dir, "core"), seed.Options{Type: abi.Core, Name: "core", Seed: 3, DModel: 64}); err != nil {
		t.Fatal(err)
	}
	return k
}

type keptFolder string

func (f keptFolder) Path(name string) (string, error) { return filepath.Join(string(f), name), nil }
func (f keptFolder) Open(name string) (*os.File, error) {
	return os.Open(filepath.Join(string(f), name))
}
func (f keptFolder) Dir(context.Context, ...string) (string, error) { return string(f), nil }

func (k *keptTest) build() *builds.Build {
	return &builds.Build{Digest: "sha256:1", Files: keptFolder(k.dir), Assembly: &builds.Assembly{
		Name: "b", Target: "laptop", KV: abi.FP16,
		Core: builds.Part{Name: "core", Version: "1.0.0", Files: builds.Formats{"gguf": {"core/core.gguf"}}},
	}}
}

// open opens the cache.
func (k *keptTest) open() *SequenceCache {
	k.Helper()
	c, err := OpenSequenceCache(k.cache, k.secret, k.limit, func(err error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.reported = append(k.reported, err.Error())
	})
	if err != nil {
		k.Fatal(err)
	}
	return c
}

// process answers texts, one after the other, and ends.
func (k *keptTest) process(b *builds.Build, c *SequenceCache, owner string, texts ...string) (out []*Answer) {
	k.Helper()
	r, err := Open(k.Context(), b, Options{Engines: []runtimes.Engine{engines.Core{}}, Kept: c, Sequences: 1})
	if err != nil {
		k.Fatal(err)
	}
	for _, text := range texts {
		a, err := r.Answer(k.Context(), Request{Inputs: []talk.Part{{Type: abi.Text, Text: text}}, Plain: true, Owner: owner, Preferences: Preferences{MaxTokens: cmp.Or(k.tokens, 6)}}, nil)
		if err != nil {
			k.Fatal(err)
		}
		out = append(out, a)
		if c != nil {
			r.saving.Wait()
		}
	}
	if err := r.Close(); err != nil {
		k.Fatal(err)
	}
	if c != nil {
		if err := c.Close(); err != nil {
			k.Fatal(err)
		}
	}
	return out
}

func (k *keptTest) files() []string {
	k.Helper()
	all, err := filepath.Glob(filepath.Join(k.cache, "*"))
	if err != nil {
		k.Fatal(err)
	}
	return all
}

const keptText = "Once upon a time there was a very long question, which everybody asked again and again, and which took long to read."

// A process continues the text of an earlier one with the same tokens, without computing it. One
// of another build, type of keys, owner, program or home computes it.
func TestKept(t *testing.T) {
	k := newKept(t)
	k.process(k.build(), k.open(), "a", keptText)
	files := k.files()
	if len(files) != 1 {
		t.Fatalf("files %v, want one", files)
	}
	if info, err := os.Stat(files[0]); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	more := keptText + " And then?"
	want := k.process(k.build(), nil, "a", more)[0]
	second, eight, data := k.build(), k.build(), must(os.ReadFile(files[0]))
	second.Digest = "sha256:2"
	eight.Assembly.KV = abi.FP8
	for _, c := range []struct {
		what   string
		build  *builds.Build
		owner  string
		reused int
	}{{"another build", second, "a", 0}, {"another type of keys", eight, "a", 0}, {"another owner", k.build(), "b", 0}, {"no owner", k.build(), "", 0}, {"the same", k.build(), "a", len(keptText)}} {
		got := k.process(c.build, k.open(), c.owner, more)[0]
		if got.Timings.Reused < c.reused || c.reused == 0 && got.Timings.Reused > 0 {
			t.Errorf("%s: got %d positions, want %d", c.what, got.Timings.Reused, c.reused)
		}
		if c.build != eight && !slices.Equal(got.Tokens, want.Tokens) {
			t.Errorf("%s: got %v, want %v", c.what, got.Tokens, want.Tokens)
		}
		for _, f := range k.files() {
			os.Remove(f)
		}
		os.WriteFile(files[0], data, 0o600)
	}
	if len(k.reported) > 0 {
		t.Errorf("reported %q", k.reported)
	}
	k.secret = bytes.Repeat([]byte{8}, SecretSize)
	if got := k.process(k.build(), k.open(), "a", more)[0]; got.Timings.Reused != 0 || !slices.Equal(got.Tokens, want.Tokens) {
		t.Errorf("another home: %d positions, %v", got.Timings.Reused, got.Tokens)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Damaged, cut, extended and forged files are reported and removed, and the answer is the same.
func TestKeptDamaged(t *testing.T) {
	k := newKept(t)
	k.process(k.build(), k.open(), "", keptText)
	file := k.files()[0]
	good := must(os.ReadFile(file))
	want := k.process(k.build(), nil, "", keptText)[0]
	head := keptHeadSize + 4*int(binary.LittleEndian.Uint32(good[keptHeadSize-4:]))
	var heads []string
	cases := map[string][]byte{"empty": {}, "longer": append(slices.Clone(good), 0), "two": append(slices.Clone(good), good...)}
	for _, at := range []int{0, 4, keptHeadSize - 4, keptHeadSize, head + 20, head + 500, len(good) / 2, len(good) - keptTail - 1, len(good) - keptTail, len(good) - 1} {
		flipped := slices.Clone(good)
		flipped[at] ^= 0x10
		if at >= keptHeadSize-4 && at < head { // like the file of another home, which is not used
			heads = append(heads, fmt.Sprintf("byte %d of %d", at, len(good)))
		}
		cases[fmt.Sprintf("byte %d of %d", at, len(good))] = flipped
	}
	for _, n := range []int{1, keptHeadSize - 1, keptHeadSize, head - 1, head, head + 1, len(good) / 2, len(good) - keptTail, len(good) - 1} {
		cases[fmt.Sprintf("cut at %d of %d", n, len(good))] = good[:n]
	}
	for what, data := range cases {
		k.reported = nil
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		got := k.process(k.build(), k.open(), "", keptText)[0]
		if !slices.Equal(got.Tokens, want.Tokens) || got.Timings.Reused != 0 {
			t.Errorf("%s: got %v with %d positions, want %v", what, got.Tokens, got.Timings.Reused, want.Tokens)
		}
		if foreign := slices.Contains(heads, what); foreign != (len(k.reported) == 0) || !foreign && !strings.Contains(k.reported[0], "computed again") {
			t.Errorf("%s: reported %q", what, k.reported)
		}
		if again := must(os.ReadFile(file)); !bytes.Equal(again, good) {
			t.Errorf("%s: the file was not replaced", what)
		}
	}
	for what, place := range map[string]func() error{
		"a folder": func() error { return os.Mkdir(file, 0o700) },
		"a link":   func() error { return os.Symlink(filepath.Join(k.dir, "core", "core.gguf"), file) },
	} {
		os.Remove(file)
		if err := place(); err != nil {
			continue // not on this system
		}
		if got := k.process(k.build(), k.open(), "", keptText)[0]; !slices.Equal(got.Tokens, want.Tokens) || got.Timings.Reused != 0 {
			t.Errorf("%s: got %v with %d positions", what, got.Tokens, got.Timings.Reused)
		}
	}
}

// A sequence that another one replaces is saved, and restored when its text goes on. The file of
// a beginning is replaced by that of the longer text.
func TestKeptEvicted(t *testing.T) {
	k := newKept(t)
	k.tokens = 1 // which the sequence lacks, so that the next text goes on with all of it
	other := strings.Repeat("z", 20) + strings.ToUpper(keptText)
	texts := []string{keptText, other, keptText + " And then?", other + "!", keptText + " And then? The end."}
	want := k.process(k.build(), nil, "", texts...)
	got := k.process(k.build(), k.open(), "", texts...)
	for i, a := range got {
		if !slices.Equal(a.Tokens, want[i].Tokens) {
			t.Errorf("%d: got %v, want %v", i, a.Tokens, want[i].Tokens)
		}
		if i > 1 && a.Timings.Reused < len(keptText) {
			t.Errorf("%d: %d positions were not computed, want at least %d", i, a.Timings.Reused, len(keptText))
		}
	}
	if files := k.files(); len(files) != 2 {
		t.Errorf("files %v, want those of two texts", files)
	}
	if len(k.reported) > 0 {
		t.Errorf("reported %q", k.reported)
	}
}

// The files used last remain within the limit, and one above it is not written.
func TestKeptRoom(t *testing.T) {
	k := newKept(t)
	k.process(k.build(), k.open(), "", keptText)
	info := must(os.Stat(k.files()[0]))
	for _, c := range []struct {
		limit int64
		want  int
	}{{info.Size() - 1, 0}, {info.Size(), 1}, {3 * info.Size(), 3}} {
		if err := os.RemoveAll(k.cache); err != nil {
			t.Fatal(err)
		}
		k.limit = c.limit
		for i := range 5 {
			k.process(k.build(), k.open(), "", strings.Replace(keptText, "Once", fmt.Sprintf("%dnce", i), 1))
			time.Sleep(10 * time.Millisecond) // times of files differ
		}
		if got := len(k.files()); got != c.want {
			t.Errorf("limit %d: got %d files, want %d", c.limit, got, c.want)
		}
	}
	cache := k.open()
	defer cache.Close()
	if n, size, err := cache.Clear(true); n != 3 || size != 3*info.Size() || err != nil {
		t.Errorf("%d files of %d bytes, %v", n, size, err)
	}
	if n, _, err := cache.Clear(false); n != 3 || len(k.files()) != 0 || err != nil {
		t.Errorf("%d files, %v", n, err)
	}
}

// Processes that use a folder at the same time have the answers of each alone.
func TestKeptTogether(t *testing.T) {
	k := newKept(t)
	want := k.process(k.build(), nil, "", keptText)[0].Tokens
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 3 {
				if got := k.process(k.build(), k.open(), "", keptText)[0].Tokens; !slices.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
			}
		})
	}
	all.Wait()
	if len(k.files()) != 1 || len(k.reported) > 0 {
		t.Errorf("files %v, reported %q", k.files(), k.reported)
	}
}

// An engine that cannot save sequences answers; the report is made once.
func TestKeptUnsavable(t *testing.T) {
	k := newKept(t)
	c := k.open()
	r, err := Open(t.Context(), k.build(), Options{Engines: []runtimes.Engine{forgetful{}}, Kept: c})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Load(t.Context()), r.Close(), c.Close()); err != nil {
		t.Fatal(err)
	}
	if len(k.reported) != 1 || !strings.Contains(k.reported[0], "cannot save sequences") {
		t.Errorf("reported %q", k.reported)
	}
	if _, err := OpenSequenceCache(k.cache, k.secret[1:], 0, nil); err == nil {
		t.Error("a short secret was taken")
	}
}

type forgetful struct{ engines.Core }

func (e forgetful) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	m, err := e.Core.Open(ctx, b, l)
	if err != nil {
		return nil, err
	}
	return forgetfulModel{m.(runtimes.Language)}, nil
}

type forgetfulModel struct{ runtimes.Language }

func (m forgetfulModel) NewSequence(ctx context.Context, opt runtimes.SequenceOptions) (runtimes.Sequence, error) {
	s, err := m.Language.NewSequence(ctx, opt)
	return struct{ runtimes.Sequence }{s}, err
}

// A text of leastKept positions is saved, a shorter one is not; the start of a file is judged by
// its size before its tokens are read.
func TestKeptLimits(t *testing.T) {
	k := newKept(t)
	for n, want := range map[int]int{leastKept - 1: 0, leastKept: 1} {
		c := k.open()
		r, err := Open(t.Context(), k.build(), Options{Engines: []runtimes.Engine{engines.Core{}}, Kept: c})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := &positions{width: 64, goesOn: true}
		p.say(slices.Repeat([]int32{5, 6}, leastKept)[:n])
		s, _, err := r.begin(t.Context(), p, false, "")
		if err != nil {
			t.Fatal(err)
		}
		r.put(s)
		if err := errors.Join(r.Close(), c.Close()); err != nil {
			t.Fatal(err)
		}
		if got := len(k.files()); got != want {
			t.Errorf("%d positions: got %d files, want %d", n, got, want)
		}
		os.RemoveAll(k.cache)
	}
	ids := func(n int) error {
		h := (&keptHead{}).append(nil)
		binary.LittleEndian.PutUint32(h[keptHeadSize-4:], uint32(n))
		_, err := readKeptHead(bytes.NewReader(append(h, make([]byte, 4*n)...)), int64(keptHeadSize+4*n+keptTail))
		return err
	}
	for n, want := range map[int]bool{0: false, 1: true, maxKeptIDs: true, maxKeptIDs + 1: false} {
		if err := ids(n); (err == nil) != want {
			t.Errorf("%d tokens: %v", n, err)
		}
	}
	h := (&keptHead{ids: make([]int32, 10)}).append(nil)
	for size, want := range map[int64]bool{int64(keptHeadSize + 40 + keptTail - 1): false, int64(keptHeadSize + 40 + keptTail): true} {
		if _, err := readKeptHead(bytes.NewReader(h), size); (err == nil) != want {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// FuzzKept restores any bytes: a session has the tokens of a file with the right digest, or none.
func FuzzKept(f *testing.F) {
	dir := f.TempDir()
	if err := seed.Write(filepath.Join(dir, "core"), seed.Options{Type: abi.Core, Name: "core", Seed: 3, DModel: 64}); err != nil {
		f.Fatal(err)
	}
	k := &keptTest{dir: dir}
	c, err := OpenSequenceCache(filepath.Join(dir, "cache"), make([]byte, SecretSize), 0, nil)
	if err != nil {
		f.Fatal(err)
	}
	r, err := Open(context.Background(), k.build(), Options{Engines: []runtimes.Engine{engines.Core{}}, Kept: c})
	if err == nil {
		err = r.Load(context.Background())
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { r.Close(); c.Close() })
	p := &positions{width: 64, goesOn: true}
	p.say(slices.Repeat([]int32{5, 6}, leastKept))
	s, _, err := r.begin(context.Background(), p, false, "")
	if err != nil {
		f.Fatal(err)
	}
	kind := r.kept.of("")
	if err := c.save(context.Background(), kind, s); err != nil {
		f.Fatal(err)
	}
	name, _ := c.find(kind, p.ids)
	path := filepath.Join(dir, "cache", name)
	good := must(os.ReadFile(path))
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(good[:keptHeadSize])
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		err := c.restore(name, kind, s)
		if (err == nil) != bytes.Equal(data, good) {
			t.Fatalf("%d bytes: %v", len(data), err)
		}
		if _, gone := os.Stat(path); err != nil && (s.Len() != 0 || len(s.held) != 0 || !errors.Is(gone, fs.ErrNotExist)) {
			t.Fatalf("%d positions, %d ids, %v", s.Len(), len(s.held), gone)
		}
	})
}
