package evidence

import "testing"

func TestMaxRecords(t *testing.T) {
	if full(make([]Record, maxRecords-1)) || !full(make([]Record, maxRecords)) {
		t.Errorf("the limit is not %d", maxRecords)
	}
}
