package pii

import (
	"net/netip"
	"strings"
)

// scan finds candidates in one pass. Every finder looks at a bounded number of
// bytes around its trigger.
type scan struct {
	text  string
	found []Finding
}

// Limits of candidates in bytes.
const (
	maxLocal   = 64  // of an e-mail address, before @
	maxDomain  = 255 // after it
	maxNumber  = 40  // a number with separators
	maxIBAN    = 42  // with spaces
	maxAddress = 90  // a Bitcoin address
	maxIPv6    = 45
)

func digit(c byte) bool  { return c >= '0' && c <= '9' }
func upper(c byte) bool  { return c >= 'A' && c <= 'Z' }
func letter(c byte) bool { return upper(c) || c >= 'a' && c <= 'z' }
func alnum(c byte) bool  { return digit(c) || letter(c) }
func hex(c byte) bool    { return digit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

// at returns the byte at i, 0 outside of the text.
func (s *scan) at(i int) byte {
	if i < 0 || i >= len(s.text) {
		return 0
	}
	return s.text[i]
}

// starts reports whether a word may start at i.
func (s *scan) starts(i int) bool { c := s.at(i - 1); return !alnum(c) && c != '_' }

func (s *scan) add(k Kind, from, to int, score float64) {
	s.found = append(s.found, Finding{k, from, to, score})
}

func (s *scan) run() {
	skip := 0 // colons before it are done
	for i := 0; i < len(s.text); i++ {
		c := s.text[i]
		if c >= 'c' && c <= 'z' || c == ' ' || c == 'a' {
			continue
		}
		switch {
		case c == '@':
			s.email(i)
		case c == ':' && i >= skip:
			skip = s.ipv6(i)
		case digit(c) || c == '+' || c == '(':
			if s.starts(i) {
				s.number(i)
				s.bitcoin(i)
			}
		case upper(c) || c == 'b':
			if s.starts(i) {
				s.iban(i)
				s.bitcoin(i)
			}
		}
	}
}

// localByte reports whether c may be in the local part of an e-mail address.
func localByte(c byte) bool {
	return alnum(c) || c != 0 && strings.IndexByte("!#$%&'*+/=?^_`{|}~.-", c) >= 0
}

// files are endings of files that no top-level domain has, as in logo@2x.png.
const files = " png jpg jpeg gif svg webp pdf json html css js tiff bmp mp4 "

func (s *scan) email(at int) {
	from := at
	for from > 0 && at-from < maxLocal && localByte(s.text[from-1]) {
		from--
	}
	for from < at && strings.IndexByte(".'`/=*{|}", s.text[from]) >= 0 {
		from++
	}
	if from == at || s.text[at-1] == '.' || strings.Contains(s.text[from:at], "..") {
		return
	}
	to := at + 1
	for to < len(s.text) && to-at <= maxDomain && (alnum(s.text[to]) || s.text[to] == '-' || s.text[to] == '.') {
		to++
	}
	for to > at+1 && !alnum(s.text[to-1]) {
		to--
	}
	labels := strings.Split(s.text[at+1:to], ".")
	top := labels[len(labels)-1]
	if len(labels) < 2 || len(top) < 2 || len(top) > 24 || strings.IndexFunc(top, func(r rune) bool { return !letter(byte(r)) }) >= 0 || strings.Contains(files, " "+strings.ToLower(top)+" ") {
		return
	}
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
			return
		}
	}
	s.add(Email, from, to, 1)
}

// ipv6 looks at the address around a colon and returns its end.
func (s *scan) ipv6(at int) int {
	part := func(c byte) bool { return hex(c) || c == ':' || c == '.' }
	from, to := at, at
	for from > 0 && at-from < maxIPv6 && part(s.text[from-1]) {
		from--
	}
	for to < len(s.text) && part(s.text[to]) {
		to++
	}
	end := to
	for to > from && s.text[to-1] == '.' || to > from+1 && s.text[to-1] == ':' && s.text[to-2] != ':' {
		to--
	}
	if to-from > maxIPv6 || !s.starts(from) || alnum(s.at(to)) {
		return end
	}
	a, err := netip.ParseAddr(s.text[from:to])
	if err != nil || !a.Is6() || a.IsUnspecified() || a.IsLoopback() {
		return end
	}
	groups := 0
	for g := range strings.SplitSeq(s.text[from:to], ":") {
		if g != "" {
			groups++
		}
	}
	score := 0.4
	if groups >= 4 {
		score = 0.95
	} else if groups == 3 {
		score = 0.6
	}
	s.add(IPv6, from, to, score)
	return end
}

// number looks at the numbers that begin at i.
func (s *scan) number(i int) {
	c := s.text[i]
	if digit(c) {
		s.ipv4(i)
		s.ssn(i)
		s.card(i)
	}
	s.phone(i)
}

// closes reports whether a number may end at i.
func (s *scan) closes(i int) bool {
	c, d := s.at(i), s.at(i+1)
	return !alnum(c) && c != '_' && !((c == '.' || c == '-' || c == '/') && digit(d))
}

func (s *scan) ipv4(i int) {
	if c := s.at(i - 1); (c == '.' || c == '-') && alnum(s.at(i-2)) {
		return
	}
	at, small := i, true
	for n := range 4 {
		v, from := 0, at
		for ; digit(s.at(at)) && at-from < 3; at++ {
			v = 10*v + int(s.text[at]-'0')
		}
		if at == from || v > 255 || at-from > 1 && s.text[from] == '0' {
			return
		}
		small = small && v < 10
		if n < 3 {
			if s.at(at) != '.' {
				return
			}
			at++
		}
	}
	if !s.closes(at) || s.text[i:at] == "0.0.0.0" {
		return
	}
	score := 0.6
	if small { // like a version
		score = 0.4
	}
	s.add(IPv4, i, at, score)
}

// form reports whether the text at i has a form, in which 0 means a digit.
func (s *scan) form(i int, form string) bool {
	if i+len(form) > len(s.text) {
		return false
	}
	for k := range len(form) {
		if c := s.text[i+k]; form[k] == '0' && !digit(c) || form[k] != '0' && c != form[k] {
			return false
		}
	}
	return s.closes(i + len(form))
}

func (s *scan) ssn(i int) {
	if c := s.at(i - 1); (c == '-' || c == '.') && alnum(s.at(i-2)) {
		return
	}
	for _, form := range []string{"000-00-0000", "000 00 0000"} {
		if !s.form(i, form) {
			continue
		}
		area, group, serial := s.text[i:i+3], s.text[i+4:i+6], s.text[i+7:i+11]
		if area == "000" || area == "666" || area[0] == '9' || group == "00" || serial == "0000" {
			return
		}
		score := 0.5
		if form[3] == ' ' {
			score = 0.3
		}
		s.add(SSN, i, i+len(form), score)
	}
}

// digits reads a number from i whose separators are equal: its digits and the
// end of each.
func (s *scan) digits(i int, separators string) (digits []byte, ends []int) {
	for at := i; at < len(s.text) && at-i < maxNumber; at++ {
		c := s.text[at]
		if digit(c) {
			digits, ends = append(digits, c-'0'), append(ends, at+1)
			continue
		}
		if strings.IndexByte(separators, c) < 0 || !digit(s.at(at+1)) {
			break
		}
		separators = string(c)
	}
	return digits, ends
}

func (s *scan) card(i int) {
	if c := s.at(i - 1); (c == '-' || c == '.') && alnum(s.at(i-2)) {
		return
	}
	all, ends := s.digits(i, " -")
	for n := min(len(all), 19); n >= 13; n-- {
		if s.closes(ends[n-1]) && issuer(all[:n]) && luhn(all[:n]) {
			s.add(Card, i, ends[n-1], 1)
			return
		}
	}
}

// issuer reports whether a payment network uses the first digits and the length.
func issuer(d []byte) bool {
	n, two := len(d), int(d[0])*10+int(d[1])
	four := two*100 + int(d[2])*10 + int(d[3])
	switch {
	case d[0] == 4:
		return n == 13 || n == 16 || n == 19
	case two >= 51 && two <= 55, four >= 2221 && four <= 2720:
		return n == 16
	case two == 34 || two == 37:
		return n == 15
	case two == 36 || two == 38 || two == 39 || two == 30:
		return n == 14 || n == 16
	case four == 6011 || two == 65 || two == 64 || two == 62 || two == 35:
		return n >= 16
	case two == 50 || two >= 56 && two <= 69:
		return true
	}
	return false
}

func luhn(d []byte) bool {
	sum := 0
	for i, v := range d {
		x := int(v)
		if (len(d)-i)%2 == 0 {
			if x *= 2; x > 9 {
				x -= 9
			}
		}
		sum += x
	}
	return sum%10 == 0
}
