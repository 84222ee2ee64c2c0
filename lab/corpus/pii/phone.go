package pii

// phone looks at the phone number that begins at i: international with +, in
// the form of North America, or national with a leading 0.
func (s *scan) phone(i int) {
	if c := s.at(i - 1); (c == '-' || c == '.' || c == '/' || c == ')') && alnum(s.at(i-2)) || c == '+' {
		return
	}
	switch c := s.text[i]; c {
	case '+':
		s.international(i)
	default:
		if !s.american(i) && c != '(' {
			s.national(i)
		}
	}
}

// group is digits of a phone number without a separator.
type group struct{ from, to int }

// groups reads groups of digits with one separator, or brackets and a space,
// between them.
func (s *scan) groups(i int) (all []group, n int) {
	at := i
	for at < len(s.text) && at-i < maxNumber {
		from := at
		for digit(s.at(at)) && at-i < maxNumber {
			at++
		}
		if at == from {
			break
		}
		all, n = append(all, group{from, at}), n+at-from
		next := at
		if s.at(next) == ')' {
			next++
		}
		if c := s.at(next); c == ' ' || c == '-' || c == '.' || c == '/' {
			next++
		}
		if s.at(next) == '(' {
			next++
		}
		if next == at || !digit(s.at(next)) {
			break
		}
		at = next
	}
	return all, n
}

func (s *scan) international(i int) {
	from := i + 1
	if s.at(from) == '(' {
		from++
	}
	all, n := s.groups(from)
	if len(all) == 0 || n < 8 || n > 15 || s.text[all[0].from] == '0' || !s.closes(all[len(all)-1].to) {
		return
	}
	s.add(Phone, i, all[len(all)-1].to, 0.7)
}

// american looks at 10 digits, in groups of 3, 3 and 4 or at once, with an
// optional 1 before. Neither area nor exchange begins with 0 or 1.
func (s *scan) american(i int) bool {
	from := i
	if s.at(from) == '(' {
		from++
	}
	all, n := s.groups(from)
	if n == 11 && len(all) > 1 && all[0].to-all[0].from == 1 && s.text[all[0].from] == '1' {
		all, n = all[1:], 10
	}
	if n != 10 || !s.closes(all[len(all)-1].to) {
		return false
	}
	var d []byte
	for _, g := range all {
		d = append(d, s.text[g.from:g.to]...)
	}
	if d[0] < '2' || d[3] < '2' {
		return false
	}
	three := len(all) == 3 && all[0].to-all[0].from == 3 && all[1].to-all[1].from == 3
	switch {
	case three:
		s.add(Phone, i, all[2].to, 0.6)
	case len(all) == 1, len(all) == 2 && all[0].to-all[0].from == 3:
		s.add(Phone, i, all[len(all)-1].to, 0.3)
	default:
		return false
	}
	return true
}

// national looks at a number with a leading 0 in groups.
func (s *scan) national(i int) {
	all, n := s.groups(i)
	if n < 9 || n > 12 || s.text[i] != '0' || s.at(i+1) == '0' || len(all) > 5 || !s.closes(all[len(all)-1].to) {
		return
	}
	score := 0.4
	if len(all) == 1 {
		score = 0.3
	}
	s.add(Phone, i, all[len(all)-1].to, score)
}
