package etcd

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// The messages of etcd's API in the form of its gateway: bytes are base64, 64-bit numbers are
// in quotes, and zero values are left out.

// number is a 64-bit number.
type number int64

// UnmarshalJSON reads a number with or without quotes.
func (n *number) UnmarshalJSON(text []byte) error {
	i, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 64)
	*n = number(i)
	return err
}

// MarshalJSON writes it with quotes.
func (n number) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatInt(int64(n), 10)), nil
}

// name is a number that is only compared, and so kept as text.
type name string

// UnmarshalJSON reads a number with or without quotes.
func (n *name) UnmarshalJSON(text []byte) error {
	*n = name(strings.Trim(string(text), `"`))
	return nil
}

type header struct {
	Cluster  name   `json:"cluster_id"`
	Term     name   `json:"raft_term"`
	Revision number `json:"revision"`
}

// server returns the Server of an instant: another cluster may lack data, and so may another
// term, since a restored etcd begins a new one.
func (h header) server() string { return string(h.Cluster) + "/" + string(h.Term) }

type keyValue struct {
	Key         []byte `json:"key"`
	Value       []byte `json:"value"`
	ModRevision number `json:"mod_revision"`
}

type rangeRequest struct {
	Key        []byte `json:"key"`
	RangeEnd   []byte `json:"range_end,omitempty"`
	KeysOnly   bool   `json:"keys_only,omitempty"`
	Limit      number `json:"limit,omitempty"`
	SortTarget string `json:"sort_target,omitempty"`
	SortOrder  string `json:"sort_order,omitempty"`
}

type rangeAnswer struct {
	Header header     `json:"header"`
	KVs    []keyValue `json:"kvs"`
	More   bool       `json:"more"`
}

type putRequest struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

type deleteRequest struct {
	Key []byte `json:"key"`
}

// operation is one of three requests; the others are nil.
type operation struct {
	Range  *rangeRequest  `json:"request_range,omitempty"`
	Put    *putRequest    `json:"request_put,omitempty"`
	Delete *deleteRequest `json:"request_delete_range,omitempty"`
}

func get(key string) operation { return operation{Range: &rangeRequest{Key: []byte(key)}} }

func put(key string, value []byte) operation {
	return operation{Put: &putRequest{[]byte(key), value}}
}

func remove(key string) operation { return operation{Delete: &deleteRequest{[]byte(key)}} }

type compare struct {
	Key         []byte `json:"key"`
	Target      string `json:"target"`
	Result      string `json:"result"`
	ModRevision number `json:"mod_revision"`
}

// unchanged is the condition that the revision mod was the last one to change a key; 0 means
// that the key does not exist.
func unchanged(key string, mod int64) compare {
	return compare{Key: []byte(key), Target: "MOD", Result: "EQUAL", ModRevision: number(mod)}
}

type txn struct {
	Compare []compare   `json:"compare,omitempty"`
	Success []operation `json:"success,omitempty"`
	Failure []operation `json:"failure,omitempty"`
}

type txnAnswer struct {
	Header    header `json:"header"`
	Succeeded bool   `json:"succeeded"`
	Responses []struct {
		Range  rangeAnswer `json:"response_range"`
		Put    *written    `json:"response_put"`
		Delete *written    `json:"response_delete_range"`
	} `json:"responses"`
}

type written struct {
	Header header `json:"header"`
}

// answers reports whether it is etcd's answer to a transaction: it has a result for each
// operation, and what was written is newer than what it was compared with. Something between
// this host and etcd may answer a write, too.
func (a *txnAnswer) answers(q txn) bool {
	done := q.Failure
	if a.Succeeded || len(q.Compare) == 0 {
		done = q.Success
	}
	if a.Header.Revision <= 0 || len(a.Responses) != len(done) {
		return false
	}
	for i, op := range done {
		r := a.Responses[i]
		if op.Put != nil && (r.Put == nil || r.Put.Header.Revision != a.Header.Revision) || op.Delete != nil && r.Delete == nil {
			return false
		}
	}
	return !a.Succeeded || !slices.ContainsFunc(q.Compare, func(c compare) bool { return a.Header.Revision <= c.ModRevision })
}

type watchRequest struct {
	Create struct {
		Key   []byte `json:"key"`
		Start number `json:"start_revision"`
	} `json:"create_request"`
}

type event struct {
	Type string   `json:"type"` // "" means a put
	KV   keyValue `json:"kv"`
}

// watchAnswer is one message of the stream.
type watchAnswer struct {
	Result struct {
		Header   header  `json:"header"`
		Created  bool    `json:"created"`
		Canceled bool    `json:"canceled"`
		Reason   string  `json:"cancel_reason"`
		Compact  number  `json:"compact_revision"`
		Events   []event `json:"events"`
	} `json:"result"`
	Error *problem `json:"error"`
}

// problem is an error of the gateway, in the forms of all versions.
type problem struct {
	Error   json.RawMessage `json:"error"`
	Message string          `json:"message"`
}

// text returns the error's text, "" if there is none.
func (p *problem) text() string {
	if p.Message != "" {
		return p.Message
	}
	var text string
	_ = json.Unmarshal(p.Error, &text)
	return text
}

type authRequest struct {
	Name     string `json:"name"`
	Password string `json:"password"`
}

type authAnswer struct {
	Token string `json:"token"`
}

type statusAnswer struct {
	Header  header   `json:"header"`
	Version string   `json:"version"`
	Size    number   `json:"dbSize"`
	Leader  name     `json:"leader"`
	Errors  []string `json:"errors"`
}
