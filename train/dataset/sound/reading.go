package sound

import (
	"slices"
	"strconv"
	"strings"
)

// A reading describes a clip by [Places] signs at fixed positions, as a target
// for an encoder without a language model: the kind, the number of beeps or
// digits, low, high, rising or falling, the thing, and three digits; then the
// letters of a word. Other positions have the empty sign.
const Places = 16

// Positions in a reading.
const (
	slotCount, slotPitch, slotThing, slotDigits, slotLetters = 1, 2, 3, 4, 8
)

// speech is the kind in readings of speech.
const speech = "speech"

// Signs returns all signs of readings, the empty sign first.
func Signs() []string {
	s := append([]string{""}, Tones, Events, speech, "low", "high", "rising", "falling")
	s = append(s, EventNames()...)
	for d := range 10 {
		s = append(s, strconv.Itoa(d))
	}
	return append(s, strings.Split("abcdefghijklmnopqrstuvwxyz", "")...)
}

// Reading returns the clip as [Places] signs.
func (c Clip) Reading() []string {
	r := make([]string, Places)
	switch c.Kind {
	case Tones:
		r[0], r[slotPitch] = Tones, c.Pitch
		if c.Beeps > 0 {
			r[slotCount] = strconv.Itoa(c.Beeps)
		}
	case Events:
		r[0], r[slotThing] = Events, c.Thing
	case Words:
		r[0] = speech
		copy(r[slotLetters:], strings.Split(c.Text, ""))
	default:
		answer := strings.Fields(c.Text)
		r[0], r[slotCount] = speech, strconv.Itoa(len(answer))
		copy(r[slotDigits:], answer)
	}
	return r
}

// Verdict is the comparison of one property of a clip.
type Verdict struct {
	Kind  string // digits/digits
	Want  string // right answer: signs separated by spaces
	Right bool
}

// Judge compares a reading with the truth.
func (c Clip) Judge(r []string) []Verdict {
	want := c.Reading()
	slots := func(what string, from, to int) Verdict {
		return Verdict{c.Kind + "/" + what, strings.Join(want[from:to], " "), slices.Equal(want[from:to], r[from:to])}
	}
	answer := slots("digits", slotDigits, slotLetters)
	switch c.Kind {
	case Tones:
		answer = slots("pitch", slotPitch, slotPitch+1)
	case Events:
		answer = slots("event", slotThing, slotThing+1)
	case Words:
		answer = slots("word", slotLetters, Places)
	}
	return []Verdict{answer, slots("count", slotCount, slotCount+1)}
}
