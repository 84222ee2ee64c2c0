package remote

import (
	"net/http"
	"strconv"
	"strings"
)

// oneChallenge is a transport that reduces the challenges of a 401 to the one that the
// client meets. Registries behind a directory service offer several, in any order and
// in one header or many; oras reads only the first.
type oneChallenge struct{ http.RoundTripper }

// RoundTrip sends the request.
func (t oneChallenge) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	const header = "Www-Authenticate"
	if offered := resp.Header.Values(header); len(offered) > 0 {
		resp.Header.Set(header, chooseChallenge(offered))
	}
	return resp, nil
}

// chooseChallenge returns the first challenge for a token that names where to get it, else
// the first for a password, else "": a token is also given to users without a login.
func chooseChallenge(headers []string) string {
	var bearer, basic string
	for _, c := range parseChallenges(strings.Join(headers, ",")) {
		switch {
		case bearer == "" && strings.EqualFold(c.scheme, "bearer") && c.params["realm"] != "":
			words := []string{}
			for _, key := range []string{"realm", "service", "scope"} {
				if value, ok := c.params[key]; ok {
					words = append(words, key+"="+strconv.Quote(value))
				}
			}
			bearer = "Bearer " + strings.Join(words, ",")
		case basic == "" && strings.EqualFold(c.scheme, "basic"):
			basic = "Basic"
		}
	}
	if bearer != "" {
		return bearer
	}
	return basic
}

// challenge is a way to authenticate; the names of its parameters are in lower case.
type challenge struct {
	scheme string
	params map[string]string
}

// parseChallenges parses a list of challenges (RFC 9110 §11.6.1). A value without quotes
// may hold any characters up to a comma or a blank, as some registries write addresses.
func parseChallenges(s string) []challenge {
	const blank = " \t"
	var all []challenge
	for {
		if s = strings.TrimLeft(s, blank+","); s == "" {
			return all
		}
		name, rest := s, ""
		if i := strings.IndexAny(s, blank+",="); i >= 0 {
			name, rest = s[:i], s[i:]
		}
		s = strings.TrimLeft(rest, blank)
		value, ok := strings.CutPrefix(s, "=")
		if !ok { // no parameter: the next challenge
			all = append(all, challenge{name, map[string]string{}})
			continue
		}
		value, s = cutValue(strings.TrimLeft(value, blank))
		if len(all) > 0 {
			all[len(all)-1].params[strings.ToLower(name)] = value
		}
	}
}

// cutValue cuts a parameter's value, quoted or not, from the start of s.
func cutValue(s string) (value, rest string) {
	if !strings.HasPrefix(s, `"`) {
		if i := strings.IndexAny(s, " \t,"); i >= 0 {
			return s[:i], s[i:]
		}
		return s, ""
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:]
		case '\\':
			if i++; i == len(s) {
				return b.String(), ""
			}
		}
		b.WriteByte(s[i])
	}
	return b.String(), ""
}
