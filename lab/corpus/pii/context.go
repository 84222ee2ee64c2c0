package pii

import "strings"

// window is the number of words on each side of a finding that affect its score,
// reach the bytes that are searched for them, and weight the effect.
const (
	window = 5
	reach  = 80
	weight = 0.35
)

// for each kind, words that raise the score.
var supports = map[Kind]string{
	Phone: " phone phones telephone tel mobile cell cellphone call calls called calling fax contact reach dial text sms whatsapp hotline ring number ",
	SSN:   " ssn ssns social security tax taxpayer ",
	IPv4:  " ip ips ipv4 address addresses addr host hosts server client ping subnet router gateway login logged connected from ",
	IPv6:  " ip ips ipv6 address addresses addr host hosts server client ping subnet router gateway ",
}

// opposes are words that lower the score of numbers.
const opposes = " version versions ver v release released build upgrade upgraded firmware section chapter clause figure paragraph order orders invoice part serial sku isbn issn model ticket case tracking item ref reference doi oid "

// around returns the effect of the words around a finding. A word that opposes
// counts only before it, next to it or one word away.
func around(text string, f Finding) float64 {
	if checked[f.Kind] {
		return 0
	}
	before := words(text[max(f.Start-reach, 0):f.Start])
	after := words(text[f.End:min(f.End+reach, len(text))])
	near := before[max(len(before)-2, 0):]
	for _, w := range near {
		if strings.Contains(opposes, " "+w+" ") {
			return -weight
		}
	}
	for _, side := range [][]string{before[max(len(before)-window, 0):], after[:min(window, len(after))]} {
		for _, w := range side {
			if strings.Contains(supports[f.Kind], " "+w+" ") {
				return weight
			}
		}
	}
	return 0
}

// words returns the words of a text in lower case.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 0x7f)
	})
}
