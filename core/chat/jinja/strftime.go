package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// strftimeNow formats the time in Options.
func strftimeNow(now time.Time) *function {
	return method("strftime_now", func(r *run, args callArgs) (value, error) {
		layout, err := args.str(0, "format", "")
		if err != nil {
			return nil, err
		}
		return r.newString(strftime(now, layout))
	})
}

// maxWidth limits the width of a field of strftime.
const maxWidth = 1024

// strftime formats t as Python's datetime.strftime does in the C locale of
// glibc, for a time without a zone: with the flags _ - 0 + ^ #, a width, and the
// modifiers E and O. Unknown directives are copied.
func strftime(t time.Time, layout string) string {
	var b strings.Builder
	for i := 0; i < len(layout); {
		if layout[i] != '%' {
			b.WriteByte(layout[i])
			i++
			continue
		}
		d, n := parseDirective(layout[i:])
		if text, ok := d.format(t); ok {
			b.WriteString(text)
		} else {
			b.WriteString(d.text(layout[i : i+n]))
		}
		i += n
	}
	return b.String()
}

// directive is a conversion of strftime.
type directive struct {
	verb     byte // 0 at the end of the layout
	pad      byte // '_', '-', '0', '+', or 0 for the default
	upper    bool
	swap     bool
	width    int
	modifier byte // 'E', 'O' or 0
}

// parseDirective reads a directive at the start of s and returns its length.
func parseDirective(s string) (d directive, n int) {
	n = 1
	for ; n < len(s) && strings.IndexByte("_-0+^#", s[n]) >= 0; n++ {
		switch s[n] {
		case '^':
			d.upper = true
		case '#':
			d.swap = true
		default:
			d.pad = s[n]
		}
	}
	for ; n < len(s) && s[n] >= '0' && s[n] <= '9'; n++ {
		d.width = min(d.width*10+int(s[n]-'0'), maxWidth)
	}
	if n < len(s) && (s[n] == 'E' || s[n] == 'O') {
		d.modifier = s[n]
		n++
	}
	if n < len(s) {
		d.verb = s[n]
		n++
	}
	return d, n
}

// composed are the directives that abbreviate others.
var composed = map[byte]string{
	'c': "%a %b %e %H:%M:%S %Y", 'D': "%m/%d/%y", 'x': "%m/%d/%y", 'F': "%Y-%m-%d", 'R': "%H:%M", 'r': "%I:%M:%S %p", 'T': "%H:%M:%S", 'X': "%H:%M:%S",
}

// unmodified are the directives that do not accept a modifier.
var unmodified = map[byte]string{'E': "aAbBdDeFgGhHIjklmMSUVwW", 'O': "aAcDFxXY"}

// format returns the text of a directive, or false if it is unknown.
func (d directive) format(t time.Time) (string, bool) {
	if d.modifier != 0 && strings.IndexByte(unmodified[d.modifier], d.verb) >= 0 {
		return "", false
	}
	if layout, ok := composed[d.verb]; ok {
		d.swap = false
		return d.text(strftime(t, layout)), true
	}
	week, monday := int(t.Weekday()), (int(t.Weekday())+6)%7
	isoYear, isoWeek := t.ISOWeek()
	switch d.verb {
	case 'a':
		return d.text(t.Format("Mon")), true
	case 'A':
		return d.text(t.Format("Monday")), true
	case 'b', 'h':
		return d.text(t.Format("Jan")), true
	case 'B':
		return d.text(t.Format("January")), true
	case 'p':
		if d.swap {
			return d.text(t.Format("pm")), true
		}
		return d.text(t.Format("PM")), true
	case 'P':
		d.upper, d.swap = false, false
		return d.text(t.Format("pm")), true
	case 'n':
		return d.text("\n"), true
	case 't':
		return d.text("\t"), true
	case '%':
		return d.text("%"), true
	case 'z':
		return "", true // the time has no zone
	case 'Z':
		return d.text(""), true
	case 'C':
		return d.number(t.Year()/100, 2, '0'), true
	case 'd':
		return d.number(t.Day(), 2, '0'), true
	case 'e':
		return d.number(t.Day(), 2, '_'), true
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 'g':
		return d.number(isoYear%100, 2, '0'), true
	case 'G':
		return d.number(isoYear, 4, '0'), true
	case 'H':
		return d.number(t.Hour(), 2, '0'), true
	case 'I':
		return d.number((t.Hour()+11)%12+1, 2, '0'), true
	case 'j':
		return d.number(t.YearDay(), 3, '0'), true
	case 'k':
		return d.number(t.Hour(), 2, '_'), true
	case 'l':
		return d.number((t.Hour()+11)%12+1, 2, '_'), true
	case 'm':
		return d.number(int(t.Month()), 2, '0'), true
	case 'M':
		return d.number(t.Minute(), 2, '0'), true
	case 's':
		return d.number(int(t.Unix()), 1, '_'), true
	case 'S':
		return d.number(t.Second(), 2, '0'), true
	case 'u':
		return d.number(monday+1, 1, '0'), true
	case 'U':
		return d.number((t.YearDay()+6-week)/7, 2, '0'), true
	case 'V':
		return d.number(isoWeek, 2, '0'), true
	case 'w':
		return d.number(week, 1, '0'), true
	case 'W':
		return d.number((t.YearDay()+6-monday)/7, 2, '0'), true
	case 'y':
		return d.number(t.Year()%100, 2, '0'), true
	case 'Y':
		return d.number(t.Year(), 4, '0'), true
	}
	return "", false
}

// number pads a number to its usual digits, or to the width.
func (d directive) number(n, digits int, pad byte) string {
	if d.pad == '-' {
		digits, pad = 1, '_'
	} else if d.pad != 0 {
		pad = d.pad
	}
	if d.width > 0 {
		digits = d.width
	}
	text := strconv.Itoa(n)
	fill := "0"
	if pad == '_' {
		fill = " "
	}
	return strings.Repeat(fill, max(0, digits-len(text))) + text
}

// text applies case and width to a text.
func (d directive) text(s string) string {
	if d.upper || d.swap && d.verb != 'p' {
		s = strings.ToUpper(s)
	}
	fill := " "
	if d.pad == '0' || d.pad == '+' {
		fill = "0"
	}
	return strings.Repeat(fill, max(0, d.width-len(s))) + s
}
