package sound_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/train/dataset/sound"
)

func open(t testing.TB, opt sound.Options) *sound.Source {
	t.Helper()
	s, err := sound.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// speech returns a folder with a pack of two training voices and a held-out
// one: each text is a distinct tone.
func speech(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, sound.PackFile), sound.PackOf(t, []string{"f2", "m1", "m4"}), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// people returns a folder of recordings at 8 kHz by two people.
func people(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for d := range 10 {
		for _, who := range []string{"ann", "ben"} {
			w := &preprocess.Wave{Rate: 8000, Samples: make([]float32, 2400)}
			for i := range w.Samples {
				w.Samples[i] = float32(math.Sin(float64(i*(d+2)) / 20))
			}
			name := strconv.Itoa(d) + "_" + who + "_0.wav"
			if err := os.WriteFile(filepath.Join(dir, name), preprocess.EncodeWAV(w), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// Every clip is a function of options and number, for concurrent use in any
// order, and within the limits.
func TestMake(t *testing.T) {
	t.Parallel()
	opt := sound.Options{Dir: speech(t), FSDD: people(t)}
	for _, split := range []string{sound.Train, sound.Held} {
		opt.Split = split
		s, again := open(t, opt), open(t, opt)
		opt.Seed++
		other := open(t, opt)
		n := 40
		if testing.Short() {
			n = 20
		}
		clips := make([]sound.Clip, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { clips[i] = s.Make(i) })
		}
		wg.Wait()
		kinds := map[string]int{}
		repeated := 0
		for i, c := range clips {
			twin := again.Make(i)
			same := slices.Equal(c.PCM, twin.PCM)
			twin.PCM = c.PCM
			if d := cmp.Diff(c, twin); d != "" || !same {
				t.Fatalf("%s clip %d: equal samples %v, %s", split, i, same, d)
			}
			if slices.Equal(c.PCM, other.Make(i).PCM) {
				repeated++
			}
			kinds[c.Kind]++
			if len(c.PCM) < sound.Rate/20 || len(c.PCM) > sound.MaxSamples {
				t.Errorf("%s clip %d, %s: %d samples", split, i, c.Kind, len(c.PCM))
			}
			loud := float32(0)
			for _, v := range c.PCM {
				if v != v || v < -1 || v > 1 {
					t.Fatalf("%s clip %d: sample %v", split, i, v)
				}
				loud = max(loud, v, -v)
			}
			if loud < 0.02 {
				t.Errorf("%s clip %d, %s: peak %v", split, i, c.Caption, loud)
			}
			if c.Caption == "" || c.Caption != strings.ToLower(c.Caption) || len(c.Questions) < 2 {
				t.Errorf("%s clip %d: %+v", split, i, c.Questions)
			}
			spoken := c.Kind == sound.Digits || c.Kind == sound.Words || c.Kind == sound.Human
			if spoken != (c.Text != "") || spoken != (c.Voice != "") || spoken && c.Questions[0].Answer != c.Text {
				t.Errorf("%s clip %d of kind %s says %q by %q: %+v", split, i, c.Kind, c.Text, c.Voice, c.Questions)
			}
			if held := strings.HasSuffix(c.Voice, "+m4"); held && split == sound.Train || !held && split == sound.Held && (c.Kind == sound.Digits || c.Kind == sound.Words) {
				t.Errorf("%s clip %d: voice %s", split, i, c.Voice)
			}
		}
		if repeated > 0 {
			t.Errorf("%d equal clips of another seed", repeated)
		}
		for _, k := range sound.AllKinds() {
			if kinds[k] != n/5 {
				t.Errorf("%s: %v", split, kinds)
			}
		}
	}
}

// The properties of a clip are in its samples: the number of beeps, and the
// pitch by zero crossings. All answers are equally frequent.
func TestTonesAreTrue(t *testing.T) {
	s := open(t, sound.Options{Kinds: []string{sound.Tones}, Seed: 3})
	answers := map[string]map[string]int{}
	counted, pitched := 0, 0
	for i := range 300 {
		c := s.Make(i)
		for _, q := range c.Questions {
			if answers[q.Kind] == nil {
				answers[q.Kind] = map[string]int{}
			}
			answers[q.Kind][q.Answer]++
		}
		if c.Questions[0].Kind != "count" {
			continue
		}
		beeps, rate := listen(c.PCM)
		if want := []string{"", "one", "two", "three", "four", "five"}; beeps < len(want) && want[beeps] == c.Questions[0].Answer {
			counted++
		}
		if (rate > 800) == (c.Questions[1].Answer == "high") {
			pitched++
		}
	}
	n := answers["pitch"]["high"] + answers["pitch"]["low"]
	if counted < n*95/100 || pitched < n*97/100 {
		t.Errorf("of %d clips, %d with the right count and %d with the right pitch", n, counted, pitched)
	}
	for kind, most := range map[string]float64{"count": 0.3, "pitch": 0.6, "direction": 0.62} {
		total, top := 0, 0
		for _, k := range answers[kind] {
			total, top = total+k, max(top, k)
		}
		if float64(top) > most*float64(total) {
			t.Errorf("%s: %v", kind, answers[kind])
		}
	}
}

// listen counts beeps by the level of blocks of 10 ms, and half of the zero
// crossings per second within them.
func listen(v []float32) (beeps int, pitch float64) {
	const block = sound.Rate / 100
	var levels []float64
	top := 0.0
	for i := 0; i+block <= len(v); i += block {
		p := 0.0
		for _, x := range v[i : i+block] {
			p += float64(x) * float64(x)
		}
		levels = append(levels, p)
		top = max(top, p)
	}
	on, off := false, 3
	crossed, blocks := 0, 0
	for k, p := range levels {
		if p < top/6 {
			on, off = false, off+1
			continue
		}
		if !on && off >= 3 {
			beeps++
		}
		on, off = true, 0
		if p > top/2 {
			blocks++
			for i := k*block + 1; i < (k+1)*block; i++ {
				if (v[i] > 0) != (v[i-1] > 0) {
					crossed++
				}
			}
		}
	}
	return beeps, float64(crossed) / 2 * 100 / float64(blocks)
}

// All things are equally frequent, and a question with the answer no is about
// another thing.
func TestEvents(t *testing.T) {
	t.Parallel()
	s := open(t, sound.Options{Kinds: []string{sound.Events}, Split: sound.Held})
	seen, yes := map[string]int{}, 0
	for i := range 400 {
		c := s.Make(i)
		seen[c.Questions[0].Answer]++
		if asks := strings.Contains(c.Questions[1].Ask, c.Caption); asks != (c.Questions[1].Answer == "yes") {
			t.Errorf("%+v", c.Questions)
		} else if asks {
			yes++
		}
	}
	for _, name := range sound.EventNames() {
		if seen[name] < 18 || seen[name] > 65 {
			t.Errorf("%s %d times of 400", name, seen[name])
		}
	}
	if len(sound.EventNames()) != 10 || yes < 160 || yes > 240 {
		t.Errorf("%d things, %d times yes", len(sound.EventNames()), yes)
	}
}

// A held-out speaker is not in training, and every recording of that speaker
// occurs once, unchanged, before any repeats.
func TestLeaveOneOut(t *testing.T) {
	dir := people(t)
	train := open(t, sound.Options{Kinds: []string{sound.Human}, FSDD: dir, Speakers: []string{"ann"}})
	for i := range 50 {
		if c := train.Make(i); c.Voice != "fsdd:ann" {
			t.Fatalf("clip %d: voice %s", i, c.Voice)
		}
	}
	held := open(t, sound.Options{Split: sound.Held, Kinds: []string{sound.Human}, FSDD: dir, Speakers: []string{"ben"}})
	counts := map[string]int{}
	for i := range 20 {
		c := held.Make(i)
		counts[c.Text]++
		if c.Voice != "fsdd:ben" || c.Questions[0] != (sound.Pair{Ask: "which digit is spoken?", Answer: c.Text, Kind: "digits"}) {
			t.Errorf("%+v", c)
		}
	}
	for d := range 10 {
		if counts[strconv.Itoa(d)] != 2 {
			t.Errorf("%v", counts)
		}
	}
}

func TestVocabulary(t *testing.T) {
	words := slices.Clone(sound.Vocabulary())
	slices.Sort(words)
	if len(words) != 100 || len(slices.Compact(words)) != 100 {
		t.Errorf("%d words", len(words))
	}
	for _, v := range sound.Voices(sound.Held) {
		if slices.Contains(sound.Voices(sound.Train), v) {
			t.Errorf("%s is in both splits", v)
		}
	}
}

func TestRefused(t *testing.T) {
	dir := speech(t)
	damaged := t.TempDir()
	data, err := os.ReadFile(filepath.Join(dir, sound.PackFile))
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(filepath.Join(damaged, sound.PackFile), data, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		opt  sound.Options
		want string
	}{
		"split":       {sound.Options{Split: "test"}, "split"},
		"kind":        {sound.Options{Kinds: []string{"music"}}, "music"},
		"weight":      {sound.Options{Kinds: []string{"tones:0"}}, "weight"},
		"no folder":   {sound.Options{Kinds: []string{"digits"}}, "mm data speech"},
		"no speech":   {sound.Options{Dir: t.TempDir()}, "mm data speech"},
		"damaged":     {sound.Options{Dir: damaged}, "digest"},
		"no voice":    {sound.Options{Dir: dir, Voices: []string{"nobody"}}, "none of the voices"},
		"no people":   {sound.Options{Kinds: []string{"human"}}, "recordings"},
		"nobody here": {sound.Options{FSDD: t.TempDir()}, "no recordings"},
		"no such one": {sound.Options{FSDD: people(t), Speakers: []string{"eve"}}, "eve"},
		"no such dir": {sound.Options{FSDD: filepath.Join(t.TempDir(), "none")}, "no such file"},
	} {
		if s, err := sound.New(c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
			if err == nil {
				s.Close()
			}
		}
	}
}

// A program with espeak-ng's interface makes a pack; two runs make equal packs.
func TestSynthesize(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("skipped: no shell")
	}
	dir := t.TempDir()
	w := &preprocess.Wave{Rate: 22050, Samples: make([]float32, 6000)}
	for i := range w.Samples[:4000] {
		w.Samples[1000+i] = float32(math.Sin(float64(i) / 9))
	}
	script := "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'voice 9  Data at: x'; exit; fi\nif [ \"$1\" = --voices=variant ]; then echo '5 variant --/F two !v/f2'; exit; fi\ncat " + filepath.Join(dir, "a.wav") + "\n"
	for name, data := range map[string][]byte{"a.wav": preprocess.EncodeWAV(w), "speak": []byte(script)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var files [2][]byte
	for k := range files {
		opt := sound.SpeechOptions{Dir: filepath.Join(dir, strconv.Itoa(k), "new"), Digits: 1, Voices: []string{"f2"}, Threads: 1 + k, Program: filepath.Join(dir, "speak")}
		calls := 0
		opt.Progress = func(done, total int) { calls++ }
		result, err := sound.Synthesize(t.Context(), opt)
		if err != nil {
			t.Fatal(err)
		}
		if result.Takes != 110 || calls != 110 || result.Engine != "voice 9" {
			t.Errorf("%+v, %d calls", result, calls)
		}
		if files[k], err = os.ReadFile(result.File); err != nil {
			t.Fatal(err)
		}
		p, err := sound.OpenPack(result.File)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(p.PCM(p.Takes[5])); n < 4000*16000/22050 || n > 4000*16000/22050+400 {
			t.Errorf("take has %d samples with silence", n)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("files of two runs differ")
	}
	if _, err := sound.Synthesize(t.Context(), sound.SpeechOptions{Dir: dir, Voices: []string{"f2", "f9"}, Program: filepath.Join(dir, "speak")}); err == nil || !strings.Contains(err.Error(), "missing voices [f9]") {
		t.Errorf("missing voice: %v", err)
	}
	if _, err := sound.Synthesize(t.Context(), sound.SpeechOptions{Dir: dir, Program: filepath.Join(dir, "a.wav")}); err == nil {
		t.Error("accepted a WAV file as program")
	}
	if _, err := sound.Synthesize(t.Context(), sound.SpeechOptions{Dir: dir, Program: "no-such-program"}); err == nil || !strings.Contains(err.Error(), "install") {
		t.Error(err)
	}
}

// Any bytes are a pack whose takes are within it, or an error.
func FuzzPack(f *testing.F) {
	f.Add(sound.PackOf(f, []string{"f2"}))
	f.Add([]byte("MMSPEEC1\x02\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := sound.ParsePack(data)
		if err != nil {
			return
		}
		for _, take := range p.Takes {
			if len(p.PCM(take)) != take.Samples {
				t.Fatalf("%+v", take)
			}
		}
	})
}

func BenchmarkMake(b *testing.B) {
	dir := speech(b)
	for _, kind := range []string{sound.Tones, sound.Events, sound.Digits} {
		b.Run(kind, func(b *testing.B) {
			s := open(b, sound.Options{Kinds: []string{kind}, Dir: dir})
			for i := 0; b.Loop(); i++ {
				s.Make(i)
			}
		})
	}
}
