package schemas

import (
	"net/mail"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
)

// standardForm returns the check of a format of JSON Schema, or nil for one that is an
// annotation.
func standardForm(name string) func(string) error {
	var ok func(string) bool
	switch name {
	case "date-time":
		ok = func(s string) bool {
			return len(s) > 10 && strings.IndexByte("Tt", s[10]) >= 0 && isDate(s[:10]) && isTime(s[11:])
		}
	case "date":
		ok = isDate
	case "time":
		ok = isTime
	case "duration":
		ok = durationForm().MatchString
	case "email":
		ok = isMail
	case "hostname":
		ok = func(s string) bool { return len(s) <= 253 && hostForm().MatchString(s) }
	case "ipv4":
		ok = func(s string) bool { a, err := netip.ParseAddr(s); return err == nil && a.Is4() }
	case "ipv6":
		ok = func(s string) bool { a, err := netip.ParseAddr(s); return err == nil && a.Is6() && a.Zone() == "" }
	case "uri", "iri":
		ok = func(s string) bool { u, err := parseURL(s); return err == nil && u.IsAbs() }
	case "uri-reference", "iri-reference":
		ok = func(s string) bool { _, err := parseURL(s); return err == nil }
	case "uuid":
		ok = uuidForm().MatchString
	case "json-pointer":
		ok = pointerForm().MatchString
	case "regex":
		ok = func(s string) bool { _, err := compilePattern(s); return err == nil }
	default:
		return nil
	}
	return match(ok)
}

// once compiles a regular expression on first use.
func once(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// RFC 3339, of durations its appendix A.
var (
	timeForm     = once(`^(?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$`)
	durationForm = once(`^P(?:\d+W|(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)(?:T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))?|T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))$`)
	hostForm     = once(`^(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\.?$`)
	uuidForm     = once(`^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	pointerForm  = once(`^(?:/(?:[^~/]|~[01])*)*$`)
)

func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

// isTime accepts a leap second where it is the last of a day in UTC.
func isTime(s string) bool {
	if !timeForm().MatchString(s) {
		return false
	}
	if s[6:8] != "60" {
		return true
	}
	t, err := time.Parse(time.RFC3339Nano, "2000-01-02T"+strings.ToUpper(s[:6]+"59"+s[8:]))
	return err == nil && t.UTC().Format("15:04") == "23:59"
}

func isMail(s string) bool {
	a, err := mail.ParseAddress(s)
	at := strings.LastIndexByte(s, '@')
	return err == nil && a.Address == s && len(s) <= 254 && at <= 64 && hostForm().MatchString(s[at+1:])
}

func parseURL(s string) (*url.URL, error) {
	if strings.ContainsAny(s, "\\ <>\"{}|^`") {
		return nil, formError("")
	}
	return url.Parse(s)
}
