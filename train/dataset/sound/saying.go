package sound

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Stretches is the maximum number of words of a [Saying]. Each word has a fixed
// time slot of StretchSamples, so that a module need not learn the durations of
// the preceding words.
const (
	Stretches      = 4
	StretchSamples = Rate * 6 / 10
)

// Kinds of sayings.
const (
	SayDigits  = "digits"  // one to four single digits: "say 7 2", "say seven, two"
	SayNumbers = "numbers" // a number of two or three digits: "say 42", "say forty two"
	SayWords   = "words"   // one or two of Vocabulary
)

// Saying is a prompt and its words.
type Saying struct {
	Prompt string
	Kind   string
	Words  []string // each one of SpokenWords
}

// Sayings makes prompts, saying i of a seed and a split, without speech.
type Sayings struct {
	Split Split
	Seed  uint64
	Plain bool // every prompt is "say …"
}

// SpokenWords returns all words of sayings.
func SpokenWords() []string {
	out := append(digitWords(), teens()...)
	out = append(out, tens()...)
	out = append(out, "hundred")
	return append(out, Vocabulary()...)
}

// teens returns ten to nineteen, tens twenty to ninety.
func teens() []string {
	return strings.Fields("ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen")
}

func tens() []string { return strings.Fields("twenty thirty forty fifty sixty seventy eighty ninety") }

// wording is the parts of a prompt: "please " "say" " the digits" … " aloud".
// No nonempty part except the objects is in both splits.
type wording struct {
	before, verbs, after, reports []string
	idle                          []string // texts around words that are not to be spoken
}

func wordings(split Split) wording {
	if split == Held {
		return wording{
			before:  []string{"", "", "kindly ", "Anna, ", "would you ", "we need you to ", "okay, "},
			verbs:   []string{"announce", "call out", "let me hear", "pronounce", "recite"},
			after:   []string{"", "", ".", " at once", ", thanks", " immediately", " loudly!"},
			reports: []string{"my friend told me %s", "Mom heard %s.", "it sounds like %s"},
		}
	}
	return wording{
		before: []string{
			"", "", "", "", "please ", "Please ", "now ", "Tom, ", "can you ", "could you ", "then ", "I want you to ", "Mom asked me to ", "let us ",
			"you should ", "he wants to ", "Lily, please ", "and ", "hello, ", "will you ", "Ben likes to ", "try to ", "go and ", "it is time to ",
		},
		verbs: []string{"say", "say", "say", "say", "say", "say", "Say", "Say", "speak", "read", "tell me", "read out", "repeat", "shout", "sing", "Speak", "Read", "write", "give me", "show me"},
		after: []string{
			"", "", "", "", "", ".", ".", "!", "?", " please", ", please", " now", " aloud", " again", " for me", " to me.", " today", ", Lily", " to the dog", " with a smile.",
			" and then stop", " very slowly", " twice",
		},
		idle: strings.Fields(`
a about after again all always and are around as ask away back bad be because begin best better big bounce bright
bring call came can careful carry catch clap clean climb close come cook could cry dark deep did do down draw drink
drop dry eat end enjoy every fall fast feel fetch few find fly follow for found friend from full fun gave gentle get
glad go good grow had happy hard has have he hear help her here hide high him his hold hope how hurry I if in into is
it jump keep kept kind know large laugh learn leave let like listen little live long look lost lot love made make many
may me mean meet mind must my name near need never new nice no not note of off often old on only open or other our out
over own park pass pick place play point pounce pretty pull push put quick quiet rain ran reach record remember rest
ride right ring run sad same saw see send shall share she shine short should sit sleep slow small smile so some soon
sound start stay still such sure take talk than thank that the their them there they thing think this time tiny to
together too took toy try turn under up use very visit voice wait walk want warm was wash way we well went were wet what
when where which who why wide will wind wise wish with wonder word work world would year yes you young your`),
		reports: []string{
			"%s", "%s", "%s.", "Lily said %s", "he said, %s", "I hear %s", "the answer is %s", "It is %s.", "she said %s to him", "%s is what I want", "we saw %s", "Tom wrote %s.",
		},
	}
}

// ask returns a prompt for a text in a random wording.
func ask(r *rand.Rand, w wording, kind, text string, several bool) string {
	one := func(list []string) string { return list[r.IntN(len(list))] }
	switch r.IntN(6) {
	case 0:
		text = `"` + text + `"`
	case 1:
		text = ": " + text
	}
	if r.IntN(5) == 0 {
		return fmt.Sprintf(one(w.reports), strings.TrimPrefix(text, ": "))
	}
	object := ""
	if r.IntN(4) == 0 {
		object = map[string]string{SayDigits: " the digit", SayNumbers: " the number", SayWords: " the word"}[kind]
		if several && kind != SayNumbers {
			object += "s"
		}
	}
	if !strings.HasPrefix(text, ":") {
		text = " " + text
	}
	before, verb, after := "", one(w.verbs), ""
	if r.IntN(2) == 0 {
		before = one(w.before)
	}
	if r.IntN(2) == 0 {
		after = one(w.after)
	}
	if len(w.idle) == 0 {
		return before + verb + object + text + after
	}
	if r.IntN(3) == 0 {
		verb = one(w.idle)
	}
	if r.IntN(3) == 0 {
		before = ""
		for range 1 + r.IntN(3) {
			before += one(w.idle) + " "
		}
	}
	if r.IntN(4) == 0 {
		after = ""
		for range 1 + r.IntN(2) {
			after += " " + one(w.idle)
		}
	}
	return before + verb + object + text + after
}

// spelt returns a number below 1,000 in words.
func spelt(n int) []string {
	var out []string
	if n >= 100 {
		out = append(out, digitWords()[n/100], "hundred")
		if n %= 100; n == 0 {
			return out
		}
	}
	switch {
	case n < 10:
		return append(out, digitWords()[n])
	case n < 20:
		return append(out, teens()[n-10])
	}
	out = append(out, tens()[n/10-2])
	if n%10 > 0 {
		out = append(out, digitWords()[n%10])
	}
	return out
}

// heldOut reports whether a text of several words is in the held-out split: one
// in five. A text of a single word is in both.
func heldOut(text string) bool {
	h := fnv.New32a()
	h.Write([]byte(text))
	return h.Sum32()%5 == 0
}

// Make returns saying i: six in ten are digits, three words and one a number.
func (s Sayings) Make(i int) Saying {
	salt := uint64(0x736179)
	if s.Split == Held {
		salt = 0x68656c64
	}
	r := rand.New(rand.NewPCG(s.Seed^salt<<20, uint64(i)))
	kind := [...]string{SayDigits, SayWords, SayDigits, SayNumbers, SayDigits, SayWords, SayDigits, SayDigits, SayWords, SayDigits}[((i%10)+10)%10]
	for {
		text, words := content(r, kind)
		if len(words) > 1 && heldOut(strings.Join(words, " ")) != (s.Split == Held) {
			continue
		}
		if s.Plain {
			return Saying{Prompt: "say " + text, Kind: kind, Words: words}
		}
		return Saying{Prompt: ask(r, wordings(s.Split), kind, text, len(words) > 1), Kind: kind, Words: words}
	}
}

// content draws the text to speak, as written and in words.
func content(r *rand.Rand, kind string) (string, []string) {
	switch kind {
	case SayNumbers:
		n := 10 + r.IntN(90)
		if r.IntN(2) == 0 {
			n = 100 + r.IntN(900)
		}
		words := spelt(n)
		if r.IntN(2) == 0 {
			return strings.Join(words, " "), words
		}
		return strconv.Itoa(n), words
	case SayWords:
		var words []string
		for range 1 + r.IntN(4)/3 {
			words = append(words, Vocabulary()[r.IntN(len(Vocabulary()))])
		}
		return strings.Join(words, " "), words
	}
	var words, written []string
	figures := r.IntN(3) > 0
	for range 1 + r.IntN(Stretches) {
		d := r.IntN(10)
		words = append(words, digitWords()[d])
		if figures {
			written = append(written, strconv.Itoa(d))
		}
	}
	if !figures {
		written = words
	}
	return strings.Join(written, [...]string{" ", " ", ", "}[r.IntN(3)]), words
}
