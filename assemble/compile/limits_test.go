package compile

import "testing"

func TestLimits(t *testing.T) {
	for n, ok := range map[int64]bool{maxRecord: true, maxRecord + 1: false} {
		if err := checkRecordSize(n); (err == nil) != ok {
			t.Errorf("record of %d bytes: %v", n, err)
		}
	}
}
