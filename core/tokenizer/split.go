package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// pass splits a piece of text into pieces that cover it.
type pass func(text string, emit func(piece string))

// scanner returns the length of the match at the start of s, or 0. s is never
// empty.
type scanner func(s string) int

// chain composes passes: each splits the pieces of the one before; the last
// one's pieces are emitted.
func chain(passes []pass, emit func(word string)) func(text string) {
	next := emit
	for i := len(passes) - 1; i >= 0; i-- {
		cut, then := passes[i], next
		next = func(text string) { cut(text, then) }
	}
	return next
}

// each returns the pass of all matches of a scanner. Text between two matches
// is a piece as well.
func each(scan scanner) pass {
	return func(text string, emit func(piece string)) {
		gap, i := 0, 0
		for i < len(text) {
			n := scan(text[i:])
			if n == 0 {
				_, width := at(text, i)
				i += width
				continue
			}
			if gap < i {
				emit(text[gap:i])
			}
			emit(text[i : i+n])
			i += n
			gap = i
		}
		if gap < len(text) {
			emit(text[gap:])
		}
	}
}

// only returns the pass of all matches of a scanner; text between them is dropped.
func only(scan scanner) pass {
	return func(text string, emit func(piece string)) {
		for i := 0; i < len(text); {
			n := scan(text[i:])
			if n > 0 {
				emit(text[i : i+n])
			} else {
				_, n = at(text, i)
			}
			i += n
		}
	}
}

// scanCLIP is
//
//	<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+
func scanCLIP(s string) int {
	for _, mark := range []string{"<|startoftext|>", "<|endoftext|>"} {
		if strings.HasPrefix(s, mark) {
			return len(mark)
		}
	}
	if s[0] == '\'' {
		if n := contraction(s, 0); n > 0 {
			return n
		}
	}
	switch c, n := at(s, 0); {
	case c&letter != 0:
		return run(s, 0, letter)
	case c&number != 0:
		return n
	case c&space == 0:
		return runOf(s, 0, space|letter|number)
	}
	return 0
}

// cutTrailingBlanks is the pass of \s+$ .
func cutTrailingBlanks(text string, emit func(piece string)) {
	end := len(text)
	for end > 0 {
		r, n := utf8.DecodeLastRuneInString(text[:end])
		if pages()[r>>8][r&0xff]&space == 0 {
			break
		}
		end -= n
	}
	if end > 0 {
		emit(text[:end])
	}
	if end < len(text) {
		emit(text[end:])
	}
}

// scanGPT2 is
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func scanGPT2(s string) int {
	if s[0] == '\'' {
		if n := contraction(s, 0); n > 0 {
			return n
		}
	}
	i := 0
	if s[0] == ' ' {
		i = 1
	}
	switch c, _ := at(s, i); {
	case c&letter != 0:
		return run(s, i, letter)
	case c&number != 0:
		return run(s, i, number)
	case c != 0 && c&space == 0:
		return runOf(s, i, space|letter|number)
	}
	return blanks(s)
}

// contraction returns the length of 's, 't, 're, 've, 'm, 'll or 'd. fold is
// 0x20 to ignore case.
func contraction(s string, fold byte) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] | fold {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(s) < 3 {
		return 0
	}
	switch [2]byte{s[1] | fold, s[2] | fold} {
	case [2]byte{'r', 'e'}, [2]byte{'v', 'e'}, [2]byte{'l', 'l'}:
		return 3
	}
	return 0
}

// blanks matches \s+(?!\S)|\s+ : white space, without its last character if
// something follows and it is not the only one. It returns 0 if s does not
// start with white space.
func blanks(s string) int {
	end, last := 0, 0
	for {
		c, n := at(s, end)
		if n == 0 {
			return end
		}
		if c&space == 0 {
			break
		}
		last, end = end, end+n
	}
	if last > 0 {
		return last
	}
	return end
}

// lines matches \s*[\r\n]+ : white space up to its last line break.
func lines(s string) int {
	end, after := 0, 0
	for {
		c, n := at(s, end)
		if c&space == 0 {
			return after
		}
		if b := s[end]; b == '\r' || b == '\n' {
			after = end + n
		}
		end += n
	}
}

// wordRule is the family of expressions derived from cl100k:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?W+|\p{N}{1,digits}|
//	 ?[^\s\p{N}W]+T*|\s*[\r\n]+|\s+(?!\S)|\s+
//
// with W the word characters and T the trailing ones.
type wordRule struct {
	word   class // W
	digits int   // 0 for no limit
	slash  bool  // T is [\r\n/] instead of [\r\n]
	bare   bool  // without T*
	joined bool  // without contractions
	cased  bool  // words change from upper to lower case once: see casedWord
}

func (r wordRule) scan(s string) int {
	if s[0] == '\'' && !r.cased && !r.joined {
		if n := contraction(s, 0x20); n > 0 {
			return n
		}
	}
	first, width := at(s, 0)
	newline := s[0] == '\r' || s[0] == '\n'
	if r.cased {
		if n := r.casedWord(s, first, width, newline); n > 0 {
			return n
		}
	} else if !newline && first&number == 0 {
		if first&r.word != 0 {
			return run(s, width, r.word)
		}
		if next, _ := at(s, width); next&r.word != 0 {
			return run(s, width, r.word)
		}
	}
	if first&number != 0 {
		return r.number(s)
	}
	i := 0
	if s[0] == ' ' {
		i = 1
	}
	if c, _ := at(s, i); c != 0 && c&(space|number|r.word) == 0 {
		return r.trailing(s, runOf(s, i, space|number|r.word))
	}
	if n := lines(s); n > 0 {
		return n
	}
	return blanks(s)
}

// number matches \p{N}{1,digits}.
func (r wordRule) number(s string) int {
	end := 0
	for n := 0; r.digits == 0 || n < r.digits; n++ {
		c, width := at(s, end)
		if c&number == 0 {
			break
		}
		end += width
	}
	return end
}

// trailing matches T*.
func (r wordRule) trailing(s string, i int) int {
	for !r.bare && i < len(s) && (s[i] == '\r' || s[i] == '\n' || r.slash && s[i] == '/') {
		i++
	}
	return i
}

// casedWord is, with A for [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and B for
// [\p{Ll}\p{Lm}\p{Lo}\p{M}],
//
//	[^\r\n\p{L}\p{N}]?A*B+|[^\r\n\p{L}\p{N}]?A+B*
//
// followed by an optional contraction where digits is bounded (gpt-4o), and
// by nothing where it is not (tekken counts digits one by one).
func (r wordRule) casedWord(s string, first class, width int, newline bool) int {
	starts := [2]int{width, 0} // the optional character is used if possible
	if newline || first&(letter|number) != 0 {
		starts[0] = 0
	}
	for _, upperFirst := range []bool{false, true} {
		for _, i := range starts {
			end := 0
			if upperFirst {
				if a := run(s, i, upper|caseless|mark); a > i {
					end = run(s, a, lower|caseless|mark)
				}
			} else {
				end = lowerTail(s, i)
			}
			if end > i {
				if r.digits > 1 && end < len(s) && s[end] == '\'' {
					end += contraction(s[end:], 0x20)
				}
				return end
			}
		}
	}
	return 0
}

// lowerTail matches A*B+ from i, greedy with backtracking: A takes all it can
// and gives back until a B follows. It returns 0 without a match.
func lowerTail(s string, i int) int {
	const a, b = upper | caseless | mark, lower | caseless | mark
	from := -1 // start of B+
	for {
		c, n := at(s, i)
		if c&b != 0 {
			from = i
		}
		if c&a == 0 {
			break
		}
		i += n
	}
	if from < 0 {
		return 0
	}
	return run(s, from, b)
}

// scanDigit matches \p{N}: a single digit.
func scanDigit(s string) int {
	if c, n := at(s, 0); c&number != 0 {
		return n
	}
	return 0
}

// scanDigits matches \p{N}+.
func scanDigits(s string) int { return run(s, 0, number) }

// scanThreeNumbers matches \p{N}{1,3}.
func scanThreeNumbers(s string) int { return wordRule{digits: 3}.number(s) }

// scanThreeDigits matches [0-9][0-9][0-9].
func scanThreeDigits(s string) int {
	if len(s) < 3 {
		return 0
	}
	for i := range 3 {
		if s[i] < '0' || s[i] > '9' {
			return 0
		}
	}
	return 3
}

// scanLineBreak matches [\r\n].
func scanLineBreak(s string) int {
	if s[0] == '\r' || s[0] == '\n' {
		return 1
	}
	return 0
}

// scanLine matches [^\n]+|[\n]+.
func scanLine(s string) int {
	i := 1
	for i < len(s) && (s[i] == '\n') == (s[0] == '\n') {
		i++
	}
	return i
}

// scanPunctuation matches [\p{P}$+<=>^~|]+, with the backquote too for falcon.
func scanPunctuation(s string) int       { return punctuationRun(s, '|') }
func scanPunctuationFalcon(s string) int { return punctuationRun(s, '`') }

func punctuationRun(s string, also byte) int {
	i := 0
	for {
		c, n := at(s, i)
		if n == 0 {
			return i
		}
		if c&punct == 0 {
			switch b := s[i]; b {
			case '$', '+', '<', '=', '>', '^', '~', '|', also:
			default:
				return i
			}
		}
		i += n
	}
}

// scanBloom is " ?[^(\s|.,!?…。，、।۔،)]+": words that end at white space and at
// the signs that end a clause.
func scanBloom(s string) int {
	i := 0
	if s[0] == ' ' {
		i = 1
	}
	from := i
	for i < len(s) {
		c, n := at(s, i)
		if r, _ := utf8.DecodeRuneInString(s[i:]); c&space != 0 || strings.ContainsRune("(|.,!?…。，、।۔،)", r) {
			break
		}
		i += n
	}
	if i == from {
		return 0
	}
	return i
}

// scanMetaspace cuts before every space: "a  b" is "a", " ", " b".
func scanMetaspace(s string) int {
	i := 1
	for i < len(s) && s[i] != ' ' {
		i++
	}
	return i
}

// spaced is \s?W+ for a set W of characters.
func spaced(in func(r rune, c class) bool) scanner {
	word := func(s string, i int) int {
		c, n := at(s, i)
		if n == 0 {
			return 0
		}
		if r, _ := utf8.DecodeRuneInString(s[i:]); !in(r, c) {
			return 0
		}
		return n
	}
	return func(s string) int {
		from := 0
		if c, n := at(s, 0); c&space != 0 {
			from = n
		}
		i := from
		for n := word(s, i); n > 0; n = word(s, i) {
			i += n
		}
		if i == from {
			return word(s, 0) // a space that is in W needs no space before it
		}
		return i
	}
}

// runeRun is W+ for a set W of characters.
func runeRun(in func(r rune) bool) scanner {
	return func(s string) int {
		i := 0
		for i < len(s) {
			r, n := utf8.DecodeRuneInString(s[i:])
			if !in(r) {
				break
			}
			i += n
		}
		return i
	}
}

// scanDeepSeek3 is the third expression of deepseek-v3:
//
//	[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
//	 ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func scanDeepSeek3(s string) int {
	first, width := at(s, 0)
	if s[0] < utf8.RuneSelf && first&(punct|symbol) != 0 {
		i := 1
		for i < len(s) && (s[i]|0x20 >= 'a' && s[i]|0x20 <= 'z') {
			i++
		}
		if i > 1 {
			return i
		}
	}
	if s[0] != '\r' && s[0] != '\n' && first&(letter|punct|symbol) == 0 {
		if end := run(s, width, letter|mark); end > width {
			return end
		}
	}
	if end := run(s, 0, letter|mark); end > 0 {
		return end
	}
	i := 0
	if s[0] == ' ' {
		i = 1
	}
	if end := run(s, i, punct|symbol); end > i {
		return wordRule{}.trailing(s, end)
	}
	if n := lines(s); n > 0 {
		return n
	}
	return blanks(s)
}

// isCased reports whether r is a letter of deepseek-llm: one with case.
func isCased(r rune) bool { return unicode.Is(casedLetters, r) }

// isSign reports whether r is a sign of deepseek-llm, [!-/:-~！-／：-～‘-‟　-。]
// without white space; the second range includes ASCII letters, which the
// expression before has matched.
func isSign(r rune) bool {
	return r >= '!' && r <= '/' || r >= ':' && r <= '~' ||
		r >= 0xff01 && r <= 0xff0f || r >= 0xff1a && r <= 0xff5e ||
		r >= 0x2018 && r <= 0x201f || r == 0x3001 || r == 0x3002
}

// isEastAsian matches [一-龥ࠀ-一가-퟿] without white space, which llama.cpp removes.
func isEastAsian(r rune) bool {
	return (r >= 0x800 && r <= 0x9fa5 || r >= 0xac00 && r <= 0xd7ff) && !unicode.Is(unicode.White_Space, r)
}

// isIdeograph matches [一-龥぀-ゟ゠-ヿ].
func isIdeograph(r rune) bool {
	return r >= 0x4e00 && r <= 0x9fa5 || r >= 0x3040 && r <= 0x30ff
}
