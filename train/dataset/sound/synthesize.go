package sound

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/fsx"
)

// SpeechOptions configure Synthesize.
type SpeechOptions struct {
	Dir     string // folder of PackFile
	Seed    uint64
	Digits  int      // takes of each digit by each voice; 0: 6
	Words   int      // takes of each word; 0: 1
	Voices  []string // variants of espeak-ng; empty: those of both splits
	Threads int      // parallel processes; 0: number of processors
	Program string   // default: espeak-ng in PATH
	// Flite is a flite program whose voices are added with ten times the takes,
	// since they come from recordings of people. Empty: none.
	Flite string
	// Reader, if set, is the only voice, such as en-us+klatt2, with one take of
	// each of [SpokenWords] within StretchSamples: the training data of a
	// speech decoder.
	Reader string

	Progress func(done, total int) // may be nil; called by one goroutine at a time
}

// Synthesized is the result of Synthesize.
type Synthesized struct {
	File    string  `json:"file"`
	Engine  string  `json:"engine"`
	Takes   int     `json:"takes"`
	Seconds float64 `json:"seconds"` // of speech
}

// Synthesize makes espeak-ng speak the digits and the words of [Vocabulary] in
// many voices, accents, pitches and speeds, and writes them to one file. The
// file is a function of the seed and the version of espeak-ng.
func Synthesize(ctx context.Context, opt SpeechOptions) (*Synthesized, error) {
	if opt.Program == "" {
		opt.Program = "espeak-ng"
	}
	if opt.Digits == 0 {
		opt.Digits = 6
	}
	if opt.Words == 0 {
		opt.Words = 1
	}
	if opt.Threads < 1 {
		opt.Threads = runtime.GOMAXPROCS(0)
	}
	if opt.Reader != "" {
		opt.Voices = nil
		if _, variant, ok := strings.Cut(opt.Reader, "+"); ok {
			opt.Voices = []string{variant}
		}
	} else if len(opt.Voices) == 0 {
		opt.Voices = append(Voices(Train), Voices(Held)...)
	}
	version, err := exec.CommandContext(ctx, opt.Program, "--version").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%w: install espeak-ng (Debian: apt-get install espeak-ng)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("getting the version of %s: %w", opt.Program, err)
	}
	engine, _, _ := strings.Cut(strings.TrimSpace(string(version)), "  ")
	if err := checkVoices(ctx, opt); err != nil {
		return nil, err
	}
	if opt.Flite != "" {
		if opt.Reader != "" {
			return nil, errors.New("reader and flite are mutually exclusive")
		}
		more, err := fliteVersion(ctx, opt.Flite)
		if err != nil {
			return nil, err
		}
		engine += ", " + more
	}
	takes := plan(opt)
	samples, err := speakAll(ctx, opt, takes)
	if err != nil {
		return nil, err
	}
	out := &Synthesized{File: filepath.Join(opt.Dir, PackFile), Engine: engine, Takes: len(takes)}
	for _, v := range samples {
		out.Seconds += float64(len(v)) / Rate
	}
	d, err := fsx.Create(opt.Dir, 0o755, fsx.Options{})
	if err == nil {
		err = d.Close()
	}
	if err == nil {
		err = fsx.Replace(out.File, 0o644, func(w io.Writer) error { return WritePack(w, engine, takes, samples) })
	}
	return out, err
}

// checkVoices checks that the program has the voices: espeak-ng silently
// replaces a missing voice by another, which may be of the other split.
func checkVoices(ctx context.Context, opt SpeechOptions) error {
	list, err := exec.CommandContext(ctx, opt.Program, "--voices=variant").Output()
	if err != nil {
		return fmt.Errorf("listing the voices of %s: %w", opt.Program, err)
	}
	has := strings.Fields(string(list))
	var missing []string
	for _, v := range opt.Voices {
		if !slices.Contains(has, "!v/"+v) {
			missing = append(missing, v)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s: missing voices %v", opt.Program, missing)
	}
	return nil
}

// plan returns the takes: each voice with each text, in the configured numbers.
func plan(opt SpeechOptions) []Take {
	if opt.Reader != "" {
		return recited(opt.Reader)
	}
	r := rand.New(rand.NewPCG(opt.Seed, 0x737065656368))
	var out []Take
	each := func(variant string, times int, voice func() string) {
		for _, part := range []struct {
			texts []string
			times int
		}{{digitWords(), opt.Digits}, {Vocabulary(), opt.Words}} {
			for _, text := range part.texts {
				for range times * part.times {
					out = append(out, Take{Text: text, Variant: variant, Voice: voice(), Pitch: 20 + r.IntN(61), Speed: 110 + r.IntN(111)})
				}
			}
		}
	}
	for _, variant := range opt.Voices {
		each(variant, 1, func() string { return accents()[r.IntN(len(accents()))] + "+" + variant })
	}
	if opt.Flite != "" {
		for _, voice := range fliteVoices() {
			each(flite+voice, fliteTimes, func() string { return flite + voice })
		}
	}
	return out
}

// recited returns the takes of a reader: slow, and all of one pitch.
func recited(voice string) []Take {
	variant := voice[strings.IndexByte(voice, '+')+1:]
	var out []Take
	for _, text := range SpokenWords() {
		out = append(out, Take{Text: text, Voice: voice, Variant: variant, Pitch: 50, Speed: 150})
	}
	return out
}

// within speaks a take in at most most samples, increasing the speed as needed.
func within(ctx context.Context, opt SpeechOptions, t *Take, most int) ([]int16, error) {
	for {
		v, err := speak(ctx, opt, *t)
		if err != nil || len(v) <= most {
			return v, err
		}
		if t.Speed >= fastest {
			return nil, fmt.Errorf("take has %d samples, want at most %d", len(v), most)
		}
		t.Speed += t.Speed / 10
	}
}

// fastest is the highest intelligible speed in words per minute.
const fastest = 400

// speakAll speaks takes in parallel.
func speakAll(ctx context.Context, opt SpeechOptions, takes []Take) ([][]int16, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	samples := make([][]int16, len(takes))
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		failed error
		next   int
		done   int
	)
	for range opt.Threads {
		wg.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= len(takes) {
					return
				}
				most := MaxSamples
				if opt.Reader != "" {
					most = StretchSamples
				}
				v, err := within(ctx, opt, &takes[i], most)
				mu.Lock()
				if err != nil && failed == nil {
					failed = fmt.Errorf("speaking %[2]q with %[1]s: %[3]w", takes[i].Voice, takes[i].Text, err)
					stop()
				}
				samples[i] = v
				done++
				if opt.Progress != nil {
					opt.Progress(done, len(takes))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if failed == nil {
		failed = context.Cause(ctx)
	}
	return samples, failed
}

// speak returns a take at Rate, without the silence around it.
func speak(ctx context.Context, opt SpeechOptions, t Take) ([]int16, error) {
	cmd := exec.CommandContext(ctx, opt.Program, "-v", t.Voice, "-p", strconv.Itoa(t.Pitch), "-s", strconv.Itoa(t.Speed), "--stdout", t.Text)
	if voice, ok := strings.CutPrefix(t.Voice, flite); ok {
		cmd = exec.CommandContext(ctx, opt.Flite, fliteArgs(voice, t)...)
	}
	var out, output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &output
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(output.String()))
	}
	w, err := preprocess.DecodeWAV(out.Bytes())
	if err == nil {
		w, err = w.ResampleTo(Rate)
	}
	if err != nil {
		return nil, err
	}
	return trimmed(w.Samples)
}

// trimmed removes samples 40 dB below the peak from both ends, except 10 ms,
// and scales the peak to one half.
func trimmed(v []float32) ([]int16, error) {
	top := float32(0)
	for _, x := range v {
		top = max(top, x, -x)
	}
	loud := func(x float32) bool { return max(x, -x) > top/100 }
	from, to := 0, len(v)
	for from < to && !loud(v[from]) {
		from++
	}
	for to > from && !loud(v[to-1]) {
		to--
	}
	from, to = max(from-Rate/100, 0), min(to+Rate/100, len(v))
	if top == 0 || to-from < Rate/20 || to-from > MaxSamples {
		return nil, fmt.Errorf("invalid length of %d samples", to-from)
	}
	out := make([]int16, to-from)
	for i, x := range v[from:to] {
		out[i] = int16(math.RoundToEven(float64(x / top * (1 << 14))))
	}
	return out, nil
}
