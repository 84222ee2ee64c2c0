package jinja

import (
	"errors"
	"fmt"
	"strings"
)

// percent is "%s" | format(value), with %s and %d only.
func percent(r *run, v value, args callArgs) (value, error) {
	s, err := r.text(v)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	next := 0
	for i := 0; i < len(s); i++ {
		if s[i] != '%' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case '%':
			b.WriteByte('%')
		case 's', 'd':
			if next == len(args.plain) {
				return nil, errors.New("not enough arguments")
			}
			text, err := r.text(args.plain[next])
			if err != nil {
				return nil, err
			}
			next++
			b.WriteString(text)
		default:
			return nil, fmt.Errorf("unsupported format %%%c", s[i])
		}
		if b.Len() > maxOutput {
			return nil, ErrOutput
		}
	}
	return r.newString(b.String())
}
