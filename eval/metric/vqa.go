package metric

import (
	"strings"
	"unicode"
)

// contractions are written with an apostrophe before answers are compared. The table is
// that of the VQA evaluation server.
const contractions = `aint ain't arent aren't cant can't couldve could've couldnt couldn't couldn'tve couldn't've couldnt've couldn't've
didnt didn't doesnt doesn't dont don't hadnt hadn't hadnt've hadn't've hadn'tve hadn't've hasnt hasn't havent haven't hed he'd
hed've he'd've he'dve he'd've hes he's howd how'd howll how'll hows how's isnt isn't itd it'd itd've it'd've it'dve it'd've
itll it'll maam ma'am mightnt mightn't mightnt've mightn't've mightn'tve mightn't've mightve might've mustnt mustn't
mustve must've neednt needn't notve not've oclock o'clock oughtnt oughtn't ow's'at 'ow's'at 'ows'at 'ow's'at 'ow'sat 'ow's'at
shant shan't shed've she'd've she'dve she'd've shouldve should've shouldnt shouldn't shouldnt've shouldn't've
shouldn'tve shouldn't've somebody'd somebodyd somebodyd've somebody'd've somebody'dve somebody'd've somebodyll somebody'll
somebodys somebody's someoned someone'd someoned've someone'd've someone'dve someone'd've someonell someone'll
someones someone's somethingd something'd somethingd've something'd've something'dve something'd've somethingll something'll
thats that's thered there'd thered've there'd've there'dve there'd've therere there're theres there's theyd they'd
theyd've they'd've they'dve they'd've theyll they'll theyre they're theyve they've twas 'twas wasnt wasn't wed've we'd've
we'dve we'd've weve we've werent weren't whatll what'll whatre what're whats what's whatve what've whens when's
whered where'd wheres where's whereve where've whod who'd whod've who'd've who'dve who'd've wholl who'll whos who's
whove who've whyll why'll whyre why're whys why's wont won't wouldve would've wouldnt wouldn't wouldnt've wouldn't've
wouldn'tve wouldn't've yall y'all yall'll y'all'll y'allll y'all'll yall'd've y'all'd've y'alld've y'all'd've
y'all'dve y'all'd've youd you'd youd've you'd've you'dve you'd've youll you'll youre you're youve you've`

// vqaNumbers are the words that the VQA evaluation server writes as digits.
const vqaNumbers = "none 0 zero 0 one 1 two 2 three 3 four 4 five 5 six 6 seven 7 eight 8 nine 9 ten 10"

// rewritten returns the replacement of a word in a table of pairs, or the word.
func rewritten(table, word string) string {
	pairs := strings.Fields(table)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] == word {
			return pairs[i+1]
		}
	}
	return word
}

// vqaAnswer normalizes an answer as the VQA evaluation does: white space, punctuation,
// numbers, articles, contractions.
func vqaAnswer(text string) string {
	text = strip(strings.NewReplacer("\n", " ", "\t", " ").Replace(text))
	var out []string
	for _, w := range fields(strings.ToLower(vqaPunctuation(text))) {
		switch w = rewritten(vqaNumbers, w); w {
		case "a", "an", "the":
		default:
			out = append(out, rewritten(contractions, w))
		}
	}
	return strings.Join(out, " ")
}

// maxDots is the number of dots that the original script removes at most: it passes a
// flag of the value 32 as the count.
const maxDots = 32

// vqaPunctuation removes punctuation next to a space, or all of it if the text has a comma
// between digits, replaces other punctuation by spaces, and removes dots that are not
// before a digit.
func vqaPunctuation(text string) string {
	out, comma := text, commaInNumber(text)
	for _, p := range strings.Split(";/[]\"{}()=+\\_-><@`,?!", "") {
		with := " "
		if comma || strings.Contains(text, p+" ") || strings.Contains(text, " "+p) {
			with = ""
		}
		out = strings.ReplaceAll(out, p, with)
	}
	var b strings.Builder
	dots := 0
	for i, r := range out {
		if r == '.' && dots < maxDots && !(i+1 < len(out) && pyDigit(out[i+1:])) {
			dots++
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// commaInNumber reports whether commas are between two digits.
func commaInNumber(text string) bool {
	runes := []rune(text)
	for i := 1; i < len(runes); i++ {
		if runes[i] != ',' || !isDecimal(runes[i-1]) {
			continue
		}
		end := i
		for end < len(runes) && runes[end] == ',' {
			end++
		}
		if end < len(runes) && isDecimal(runes[end]) {
			return true
		}
	}
	return false
}

// humans is the number of equal answers of other people that make an answer correct.
const humans = 3

// VQA returns the accuracy of an answer: the mean, over the answers of people, of the
// share of three other people who answer the same (Antol et al., arXiv 1505.00468).
func VQA(answer string, people []string) float64 {
	if len(people) == 0 {
		return 0
	}
	answer = vqaAnswer(answer)
	same := make([]bool, len(people))
	all := 0
	for i, p := range people {
		if same[i] = vqaAnswer(p) == answer; same[i] {
			all++
		}
	}
	sum := 0.0
	for _, s := range same {
		others := all
		if s {
			others--
		}
		sum += min(1, float64(others)/humans)
	}
	return sum / float64(len(people))
}

// pyDigit reports whether a text begins with a character that \d matches.
func pyDigit(text string) bool {
	for _, r := range text {
		return isDecimal(r)
	}
	return false
}

func isDecimal(r rune) bool { return unicode.Is(unicode.Nd, r) }
