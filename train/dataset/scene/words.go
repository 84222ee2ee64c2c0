package scene

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// lexicon is words of early readers; both splits draw them.
var lexicon = strings.Fields(`
a i am an as at be by do go he hi if in is it me my no of on or so to up us we
all and ant any arm art ask bad bag bat bed bee big bird boat bog box boy bug bun bus but cab can cap car cat cow cub cup cut dad
day den did dig dog dot dry ear eat egg elf end eye fan far fat few fig fin fish fit fix fly fog for fox fun fur gap get girl got gum
gun hat hen her him hip his hit hop hot how hug hut ice ink jam jar jet job jog joy jug key kid kit lap leg let lid lip log lot low
mad man map mat mix mom mop mud mug nap net new nod not now nut oak oil old one our out owl own pan paw pay pea pen pet pie pig pin
pit pot put rag rain ran rat raw ray red rib rid rip road rob rod row rug run sad saw say sea see set she shy sit six sky son sum sun
tag tail tan tap tea ten the tie tin tip toe top toy tree try tub two van vet wag wall was wax way web well wet who why wig win wind
wolf yes yet you zip zoo able away baby back ball bear bell best blue book call cake came city cold come cook corn dark deep deer
desk door down draw drum duck dust each east face farm fast feet find fire five flag food foot four frog full game gave gift give
goat gold good grow hair half hand hard head help here hill hold home hope jump just keep kind king kite lake lamp land last late
lazy leaf left like line lion live long look lost love made make many milk mind moon more most move much must nail name near neck
need nest next nice nine nose open over page park part path pick pink play pond pool pull push read ride ring rock roof room rope
rose safe said salt same sand save seed seen sell send ship shoe shop show side sing size skin sleep slow snow soap sock soft some
song soon soup star stay stop swim take talk tall team tell tent than that them then they this time told town toys turn vase very
wait walk want warm wash wave week went west what when wide wild will wing wise wish with wood word work yard year your zero apple
beach bread bring brown brush chair child clean clock cloud dance dress drink dream earth eight every field first floor flower fruit
garden glass grape grass great green happy heart horse hotel house juice kitchen knife large laugh lemon light lunch money monkey
mother mouse music night number ocean orange paper party peach pencil piano place plant plate point potato purple queen quick quiet
rabbit radio river robot round school seven shark sheep shirt small smile snake space spoon sport stone storm story street sugar
summer table teach thank thing three tiger tomato train truck turtle uncle under water whale wheel white winter woman world yellow
young zebra animal answer autumn banana basket better bottle bridge butter button candle carrot castle cheese circle cookie corner
cotton dinner doctor dragon family father finger forest friend kitten ladder letter little market mirror morning mountain orchard
penguin picture pumpkin rainbow sandwich scissors shoulder sister spring square station student sunshine teacher thunder tractor
trumpet umbrella village window`)

// heldWord reports whether a made-up word is drawn only for the held-out split:
// a fifth of those with three letters and more, by hash.
func heldWord(s string) bool {
	h := fnv.New32a()
	h.Write([]byte(s))
	return h.Sum32()%5 == 0
}

// heldNumber reports whether a number is drawn only for the held-out split:
// from 10, those that are 3 modulo 7.
func heldNumber(n int) bool { return n >= 10 && n%7 == 3 }

const (
	letters    = "abcdefghijklmnopqrstuvwxyz"
	consonants = "bcdfghjklmnprstvwz"
	vowels     = "aeiou"
)

// word returns a real word or, half the time, a made-up one.
func (p *pen) word() string {
	if p.one(2) {
		return pick(&p.dice, lexicon)
	}
	for {
		n := p.span(3, 8)
		if p.one(10) {
			n = p.span(1, 2)
		}
		b := make([]byte, n)
		spoken, off := !p.one(3), p.n(2)
		for i := range b {
			switch from := letters; {
			case spoken && (i+off)%2 == 0:
				b[i] = consonants[p.n(len(consonants))]
			case spoken:
				b[i] = vowels[p.n(len(vowels))]
			default:
				b[i] = from[p.n(len(from))]
			}
		}
		if s := string(b); n < 3 || heldWord(s) == p.held {
			return s
		}
	}
}

// number returns a number of one to four digits, with equal probability of each
// length.
func (p *pen) number() int {
	from := pick(&p.dice, []int{0, 10, 100, 1000})
	for {
		n := p.span(from, max(from, 1)*10-1)
		if n < 10 || heldNumber(n) == p.held {
			return n
		}
	}
}

// words draws a word.
func (p *pen) words() Scene {
	word := p.word()
	text := word
	switch p.n(3) {
	case 0:
		text = strings.ToUpper(word)
	case 1:
		text = strings.ToUpper(word[:1]) + word[1:]
	}
	if len(text) == 1 && strings.Contains("Il", text) { // many fonts draw both alike
		text = "i"
		word = text
	}
	colour := p.writing(text)
	sc := Scene{Caption: "the word " + word, Truth: Truth{Text: text, Colour: colour}}
	sc.Questions = p.ask(sc.Questions, AskRead, word,
		"what does it say?", "what word is this?", "read the word.", "what is written here?", "which word do you see?")
	sc.Questions = p.ask(sc.Questions, AskCount, strconv.Itoa(len(word)),
		"how many letters are there?", "how many letters has the word?")
	sc.Questions = p.ask(sc.Questions, AskColour, colour, "what color is the word?", "what is the color of the word?")
	if p.plain {
		sc.Draw = pick(&p.dice, []string{"write ", "draw the word ", "please write "}) + word + " in " + colour
	}
	return sc
}

// digits draws a number.
func (p *pen) digits() Scene {
	text := strconv.Itoa(p.number())
	colour := p.writing(text)
	sc := Scene{Caption: "the number " + text, Truth: Truth{Text: text, Colour: colour}}
	sc.Questions = p.ask(sc.Questions, AskRead, text,
		"what number is this?", "which number do you see?", "read the number.", "what is the number?")
	sc.Questions = p.ask(sc.Questions, AskCount, strconv.Itoa(len(text)),
		"how many digits are there?", "how many digits has the number?")
	sc.Questions = p.ask(sc.Questions, AskColour, colour, "what color is the number?", "what is the color of the number?")
	if p.plain {
		sc.Draw = pick(&p.dice, []string{"write the number ", "draw the number ", "please write "}) + text + " in " + colour
	}
	return sc
}

// writing draws a text at a random position, as large as fits or down to 14 of
// 128 pixels, and returns the name of its color.
func (p *pen) writing(text string) string {
	ground := p.ground(true)
	colour := pick(&p.dice, against(ground))
	most := 56
	if p.small && !p.one(3) {
		most = 24
	}
	st := style{font: pick(&p.dice, p.fonts), em: p.px(p.span(14, most) * unit), wide: 256}
	if !p.plain {
		st.wide, st.space, st.angle = p.span(230, 285), p.span(-10, 80), p.span(-24, 24)
	}
	l := p.fitted(text, st)
	edge := p.px(margin)
	room := p.size*unit - 2*edge
	l = l.moved(point{edge - l.lo.x + p.n(max(room-l.width(), 0)+1), edge - l.lo.y + p.n(max(room-l.height(), 0)+1)})
	p.write(l, p.shade(colour), colour, Row)
	p.finish()
	return colour
}

// margin is the free space around a text, for 128 pixels.
const margin = 4 * unit

// fitted scales a text down to fit into the image.
func (p *pen) fitted(text string, st style) lettering {
	room := p.size*unit - 2*p.px(margin)
	l := p.letter(text, st)
	if over := max(l.width(), l.height()); over > room {
		// Lengths are proportional to the size except for rounding.
		st.em = int(int64(st.em) * int64(room-unit) / int64(over))
		l = p.letter(text, st)
	}
	return l
}
