package sound

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/fsx"
)

// recording is a person's digit.
type recording struct {
	speaker string
	digit   int
	v       []float64
}

// openSpeech opens the speech of the kinds.
func (s *Source) openSpeech() error {
	if s.has(Digits) || s.has(Words) {
		if s.opt.Dir == "" {
			return errors.New("kinds digits and words require a folder of speech: make one with mm data speech DIR")
		}
		if err := s.openPack(); err != nil {
			return err
		}
	}
	if s.has(Human) {
		if s.opt.FSDD == "" {
			return errors.New("kind human requires a folder of recordings (the Free Spoken Digit Dataset)")
		}
		if err := s.openPeople(); err != nil {
			return fmt.Errorf("reading recordings in %s: %w", s.opt.FSDD, err)
		}
	}
	return nil
}

func (s *Source) openPack() error {
	p, err := OpenPack(filepath.Join(s.opt.Dir, PackFile))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("no speech in %s: make it with mm data speech %s", s.opt.Dir, s.opt.Dir)
	}
	if err != nil {
		return fmt.Errorf("opening speech in %s: %w", s.opt.Dir, err)
	}
	s.pack, s.takes = p, map[string][]int{}
	voices := s.opt.Voices
	if len(voices) == 0 {
		voices = Voices(s.opt.Split)
		if s.opt.Split != Held {
			for _, v := range fliteVoices() {
				voices = append(voices, flite+v)
			}
		}
	}
	for i, t := range p.Takes {
		if !slices.Contains(voices, t.Variant) {
			continue
		}
		if !slices.Contains(s.voices, t.Variant) {
			s.voices = append(s.voices, t.Variant)
		}
		key := t.Variant + "\x00" + t.Text
		s.takes[key] = append(s.takes[key], i)
	}
	slices.Sort(s.voices)
	var texts []string
	if s.has(Digits) {
		texts = digitWords()
	}
	if s.has(Words) {
		texts = append(texts, Vocabulary()...)
	}
	// Keep the voices that have all texts.
	s.voices = slices.DeleteFunc(s.voices, func(v string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return len(s.takes[v+"\x00"+text]) == 0 })
	})
	s.often(texts)
	if len(s.voices) == 0 {
		return errors.Join(fmt.Errorf("speech in %s has none of the voices %v", s.opt.Dir, voices), p.Close())
	}
	return nil
}

// often repeats voices in proportion to their number of takes.
func (s *Source) often(texts []string) {
	count := func(v string) (n int) {
		for _, text := range texts {
			n += len(s.takes[v+"\x00"+text])
		}
		return n
	}
	least := math.MaxInt
	for _, v := range s.voices {
		least = min(least, count(v))
	}
	var all []string
	for _, v := range s.voices {
		for range max(count(v)/max(least, 1), 1) {
			all = append(all, v)
		}
	}
	s.voices = all
}

// spoken returns one take of a text by a voice.
func (s *Source) spoken(m *mixer, variant, text string) ([]float64, string) {
	takes := s.takes[variant+"\x00"+text]
	t := &s.pack.Takes[takes[m.IntN(len(takes))]]
	return s.pack.samples(t), t.Voice
}

// digits returns one to three digits by one voice. The chance level of a single
// one is one in ten.
func (s *Source) digits(m *mixer) Clip {
	variant := s.voices[m.IntN(len(s.voices))]
	var digits []string
	var out []float64
	voice := ""
	for k := range [...]int{1, 1, 1, 1, 1, 2, 2, 2, 3, 3}[m.IntN(10)] {
		d := m.IntN(10)
		if k > 0 {
			out = append(out, seconds(m.in(0.06, 0.25))...)
		}
		var v []float64
		v, voice = s.spoken(m, variant, digitWords()[d])
		out = append(out, v...)
		digits = append(digits, strconv.Itoa(d))
	}
	return digitClip(m.finishSpeech(out), digits, voice)
}

func digitClip(v []float32, digits []string, voice string) Clip {
	text := strings.Join(digits, " ")
	ask := "which digits are spoken?"
	if len(digits) == 1 {
		ask = "which digit is spoken?"
	}
	return Clip{PCM: v, Caption: "a voice says " + text, Text: text, Voice: voice, Questions: []Pair{
		{ask, text, "digits"},
		{"how many digits are spoken?", number(len(digits)), "count"},
		{"what do you hear?", "a voice says " + text, "caption"},
	}}
}

// words returns one of [Vocabulary]. The chance level is one in a hundred.
func (s *Source) words(m *mixer) Clip {
	word := Vocabulary()[m.IntN(len(Vocabulary()))]
	v, voice := s.spoken(m, s.voices[m.IntN(len(s.voices))], word)
	return Clip{PCM: m.finishSpeech(v), Caption: "a voice says " + word, Text: word, Voice: voice, Questions: []Pair{
		{"which word is spoken?", word, "word"},
		{"what do you hear?", "a voice says " + word, "caption"},
	}}
}

// maxRecording bounds the size of a file of a person's digit in bytes.
const maxRecording = 1 << 20

// openPeople reads the recordings, sorted by name.
func (s *Source) openPeople() error {
	entries, err := os.ReadDir(s.opt.FSDD)
	if err != nil {
		return err
	}
	s.people = map[string][]recording{}
	for _, e := range entries {
		name, wav := strings.CutSuffix(e.Name(), ".wav")
		parts := strings.Split(name, "_")
		if !wav || len(parts) != 3 {
			continue
		}
		digit, err := strconv.Atoi(parts[0])
		if err != nil || digit < 0 || digit > 9 || len(s.opt.Speakers) > 0 && !slices.Contains(s.opt.Speakers, parts[1]) {
			continue
		}
		data, err := fsx.ReadFile(filepath.Join(s.opt.FSDD, e.Name()), maxRecording)
		if err != nil {
			return err
		}
		w, err := preprocess.DecodeSound(data)
		if err == nil {
			w, err = w.ResampleTo(Rate)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name(), err)
		}
		r := recording{parts[1], digit, make([]float64, min(len(w.Samples), MaxSamples))}
		for i := range r.v {
			r.v[i] = float64(w.Samples[i])
		}
		s.people[r.speaker] = append(s.people[r.speaker], r)
		s.single = append(s.single, r)
		if !slices.Contains(s.names, r.speaker) {
			s.names = append(s.names, r.speaker)
		}
	}
	slices.Sort(s.names)
	for _, want := range s.opt.Speakers {
		if !slices.Contains(s.names, want) {
			return fmt.Errorf("unknown speaker %s", want)
		}
	}
	if len(s.single) == 0 {
		return errors.New("no recordings")
	}
	return nil
}

// human returns digits by a person, one or two for training. For evaluation it
// returns every recording in turn: as many different clips as there are
// recordings.
func (s *Source) human(m *mixer) Clip {
	if !m.train {
		r := s.single[((m.i/s.total)%len(s.single)+len(s.single))%len(s.single)]
		v := append([]float64(nil), r.v...)
		return digitClip(m.finishSpeech(v), []string{strconv.Itoa(r.digit)}, "fsdd:"+r.speaker)
	}
	all := s.people[s.names[m.IntN(len(s.names))]]
	var out []float64
	var digits []string
	for range 1 + m.IntN(5)/3 {
		r := all[m.IntN(len(all))]
		if len(digits) > 0 {
			out = append(out, seconds(m.in(0.02, 0.2))...)
		}
		out = append(out, r.v...)
		digits = append(digits, strconv.Itoa(r.digit))
	}
	return digitClip(m.finishSpeech(out), digits, "fsdd:"+all[0].speaker)
}
