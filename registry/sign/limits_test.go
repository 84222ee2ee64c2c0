package sign

import (
	"fmt"
	"strings"
	"testing"
)

func TestPolicyLimits(t *testing.T) {
	for more, over := range []bool{false, true} {
		key := TrustedKey{PEM: []byte("x")}
		rules := Policy{Keys: map[string]TrustedKey{"k": key}}
		for i := range maxRules + more {
			rules.Rules = append(rules.Rules, Rule{Match: fmt.Sprint("r", i), Keys: []string{"k"}})
		}
		keys := Policy{Keys: map[string]TrustedKey{}}
		for i := range maxKeys + more {
			keys.Keys[fmt.Sprint("k", i)] = key
		}
		one := Policy{Keys: map[string]TrustedKey{}, Rules: []Rule{{Match: "r"}}}
		for i := range maxRuleKey + more {
			one.Keys[fmt.Sprint("k", i)] = key
			one.Rules[0].Keys = append(one.Rules[0].Keys, fmt.Sprint("k", i))
		}
		for text, p := range map[string]Policy{"more than 1024 rules": rules, "or 1024 keys": keys, "a rule names 1 to 64": one} {
			if err := p.Validate(); strings.Contains(fmt.Sprint(err), text) != over {
				t.Errorf("limit+%d: %v, want %q: %v", more, err, text, over)
			}
		}
	}
}
