package seed

import "testing"

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		opt Options
		ok  bool
	}{
		{Options{DModel: maxDModel}, true}, {Options{DModel: maxDModel + 1}, false},
		{Options{DEnc: maxDEnc}, true}, {Options{DEnc: maxDEnc + 1}, false},
		{Options{TCap: maxTCap}, true}, {Options{TCap: maxTCap + 1}, false},
	} {
		if err := c.opt.sizes(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.opt, err)
		}
	}
}
