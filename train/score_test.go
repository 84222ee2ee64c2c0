package train

import "testing"

// Chance is the share of the most frequent answer.
func TestTally(t *testing.T) {
	c := Tally{}
	for i, answer := range []string{"yes", "yes", "no", "yes"} {
		c.Add("shapes/there", answer, i < 1)
	}
	c.Add("charts/value", "4", true)
	s := c.Scores()
	if len(s) != 2 || s[0].Kind != "charts/value" || s[1].Chance != 0.75 || s[1].Right != 1 || s[1].N != 4 {
		t.Errorf("%+v", s)
	}
}
