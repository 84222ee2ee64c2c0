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

// openSpeech opens what the kinds need.
func (s *Source) openSpeech() error {
	if s.has(Digits) || s.has(Words) {
		if s.opt.Dir == "" {
			return errors.New("spoken digits and words need the folder of their speech: make one with mm data speech DIR")
		}
		if err := s.openPack(); err != nil {
			return err
		}
	}
	if s.has(Human) {
		if s.opt.FSDD == "" {
			return errors.New("digits spoken by people need the folder of their recordings (the Free Spoken Digit Dataset)")
		}
		if err := s.openPeople(); err != nil {
			return fmt.Errorf("reading the recordings in %s: %w", s.opt.FSDD, err)
		}
	}
	return nil
}

func (s *Source) openPack() error {
	p, err := OpenPack(filepath.Join(s.opt.Dir, PackFile))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is no speech in %s: make it with mm data speech %s", s.opt.Dir, s.opt.Dir)
	}
	if err != nil {
		return fmt.Errorf("opening the speech in %s: %w", s.opt.Dir, err)
	}
	s.pack, s.takes = p, map[string][]int{}
	wanted := s.opt.Voices
	if len(wanted) == 0 {
		wanted = Voices(s.opt.Split)
		if s.opt.Split != Held {
			for _, v := range fliteVoices() {
				wanted = append(wanted, flite+v)
			}
		}
	}
	for i, t := range p.Takes {
		if !slices.Contains(wanted, t.Variant) {
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
	// A voice counts that says all that is asked for.
	s.voices = slices.DeleteFunc(s.voices, func(v string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return len(s.takes[v+"\x00"+text]) == 0 })
	})
	s.often(texts)
	if len(s.voices) == 0 {
		return errors.Join(fmt.Errorf("the speech in %s has none of the voices %v", s.opt.Dir, wanted), p.Close())
	}
	return nil
}

// often has voices that speak more often than others heard more often as well.
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

// spoken is one take of a text by a voice.
func (s *Source) spoken(m *mixer, variant, text string) ([]float64, string) {
	takes := s.takes[variant+"\x00"+text]
	t := &s.pack.Takes[takes[m.IntN(len(takes))]]
	return s.pack.samples(t), t.Voice
}

// digits are one to three by one voice. By chance a single one is right one time
// in ten.
func (s *Source) digits(m *mixer) Clip {
	variant := s.voices[m.IntN(len(s.voices))]
	var said []string
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
		said = append(said, strconv.Itoa(d))
	}
	return saidDigits(m.finishSpeech(out), said, voice)
}

func saidDigits(v []float32, said []string, voice string) Clip {
	text := strings.Join(said, " ")
	ask := "which digits are spoken?"
	if len(said) == 1 {
		ask = "which digit is spoken?"
	}
	return Clip{PCM: v, Caption: "a voice says " + text, Text: text, Voice: voice, Questions: []Pair{
		{ask, text, "digits"},
		{"how many digits are spoken?", number(len(said)), "count"},
		{"what do you hear?", "a voice says " + text, "caption"},
	}}
}

// words is one of [Vocabulary]. By chance it is right one time in a hundred.
func (s *Source) words(m *mixer) Clip {
	word := Vocabulary()[m.IntN(len(Vocabulary()))]
	v, voice := s.spoken(m, s.voices[m.IntN(len(s.voices))], word)
	return Clip{PCM: m.finishSpeech(v), Caption: "a voice says " + word, Text: word, Voice: voice, Questions: []Pair{
		{"which word is spoken?", word, "word"},
		{"what do you hear?", "a voice says " + word, "caption"},
	}}
}

// maxRecording bounds a file of a person's digit.
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
			w, err = w.Resampled(Rate)
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
			return fmt.Errorf("there is nobody named %s", want)
		}
	}
	if len(s.single) == 0 {
		return errors.New("there are none")
	}
	return nil
}

// human is a digit that a person speaks, one or two for training. What is held is
// every recording in turn: as many different clips as there are recordings.
func (s *Source) human(m *mixer) Clip {
	if !m.train {
		r := s.single[((m.i/s.total)%len(s.single)+len(s.single))%len(s.single)]
		v := append([]float64(nil), r.v...)
		return saidDigits(m.finishSpeech(v), []string{strconv.Itoa(r.digit)}, "fsdd:"+r.speaker)
	}
	all := s.people[s.names[m.IntN(len(s.names))]]
	var out []float64
	var said []string
	for range 1 + m.IntN(5)/3 {
		r := all[m.IntN(len(all))]
		if len(said) > 0 {
			out = append(out, seconds(m.in(0.02, 0.2))...)
		}
		out = append(out, r.v...)
		said = append(said, strconv.Itoa(r.digit))
	}
	return saidDigits(m.finishSpeech(out), said, "fsdd:"+all[0].speaker)
}
