// A server that holds a table in memory and speaks as much of MongoDB's protocol as the driver and the
// binding use. It fails the test at any other command, so it is also the list of what a real server must
// understand.

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/x/bsonx/bsoncore"
	"go.mongodb.org/mongo-driver/x/mongo/driver/wiremessage"
)

type server struct {
	test     *testing.T
	listener net.Listener
	// The time that each update takes.
	delay time.Duration
	// Every fifth update fails.
	refusing atomic.Bool
	// The number of connections before which no update ends.
	awaited int

	mutex sync.Mutex
	// Documents by key, each without it.
	table   map[string]map[string][]byte
	seen    map[string]int64
	clients map[net.Conn]bool
	// The most connections at a time.
	connectionsMax int
}

func serve(t *testing.T) *server {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{
		test: t, listener: listener,
		table: map[string]map[string][]byte{}, seen: map[string]int64{}, clients: map[net.Conn]bool{},
	}
	t.Cleanup(s.close)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			s.mutex.Lock()
			s.clients[connection] = true
			s.connectionsMax = max(s.connectionsMax, len(s.clients))
			s.mutex.Unlock()
			go s.talk(connection)
		}
	}()
	return s
}

func (s *server) url() string { return "mongodb://" + s.listener.Addr().String() }

func (s *server) count(command string) int64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.seen[command]
}

// connections is the most that there were at a time.
func (s *server) connections() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.connectionsMax
}

// commands are the names of all commands that came.
func (s *server) commands() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	names := []string{}
	for name := range s.seen {
		names = append(names, name)
	}
	return names
}

// forget waits until all clients are gone, and begins to count connections anew.
func (s *server) forget() {
	for {
		s.mutex.Lock()
		gone := len(s.clients) == 0
		s.connectionsMax = 0
		s.mutex.Unlock()
		if gone {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (s *server) close() {
	s.listener.Close()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for client := range s.clients {
		client.Close()
	}
}

// talk answers one client until it goes.
func (s *server) talk(client net.Conn) {
	defer func() {
		client.Close()
		s.mutex.Lock()
		delete(s.clients, client)
		s.mutex.Unlock()
	}()
	for {
		size := make([]byte, 4)
		if _, err := io.ReadFull(client, size); err != nil {
			return
		}
		message := make([]byte, binary.LittleEndian.Uint32(size))
		copy(message, size)
		if _, err := io.ReadFull(client, message[4:]); err != nil {
			return
		}
		reply, err := s.reply(message)
		if err != nil {
			s.test.Error(err)
			return
		}
		if _, err := client.Write(reply); err != nil {
			return
		}
	}
}

// reply is the message that answers this one.
func (s *server) reply(message []byte) ([]byte, error) {
	_, request, _, opcode, body, ok := wiremessage.ReadHeader(message)
	if !ok {
		return nil, fmt.Errorf("no header: %x", message)
	}
	var answer bson.D
	switch opcode {
	case wiremessage.OpQuery:
		_, body, _ = wiremessage.ReadQueryFlags(body)
		collection, body, _ := wiremessage.ReadQueryFullCollectionName(body)
		command, _, ok := bsoncore.ReadDocument(body[8:])
		if !ok || collection != "admin.$cmd" {
			return nil, fmt.Errorf("an old query of %s", collection)
		}
		answer = s.answer(command, nil)
	case wiremessage.OpMsg:
		flags, body, _ := wiremessage.ReadMsgFlags(body)
		if flags != 0 {
			return nil, fmt.Errorf("flags %x", flags)
		}
		var command bsoncore.Document
		var batch []bsoncore.Document
		for len(body) > 0 {
			kind, rest, _ := wiremessage.ReadMsgSectionType(body)
			ok := true
			if kind == wiremessage.DocumentSequence {
				_, batch, body, ok = wiremessage.ReadMsgSectionDocumentSequence(rest)
			} else {
				command, body, ok = wiremessage.ReadMsgSectionSingleDocument(rest)
			}
			if !ok {
				return nil, fmt.Errorf("a section of kind %d cannot be read", kind)
			}
		}
		answer = s.answer(command, batch)
	default:
		return nil, fmt.Errorf("opcode %v", opcode)
	}
	document, err := bson.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return framed(opcode, request, document), nil
}

// framed is a document in the message that answers a request of this kind.
func framed(opcode wiremessage.OpCode, request int32, document []byte) []byte {
	kind := wiremessage.OpMsg
	if opcode == wiremessage.OpQuery {
		kind = wiremessage.OpReply
	}
	index, out := wiremessage.AppendHeaderStart(nil, request+1, request, kind)
	if kind == wiremessage.OpReply {
		out = wiremessage.AppendReplyFlags(out, 0)
		out = wiremessage.AppendReplyCursorID(out, 0)
		out = wiremessage.AppendReplyStartingFrom(out, 0)
		out = wiremessage.AppendReplyNumberReturned(out, 1)
	} else {
		out = wiremessage.AppendMsgFlags(out, 0)
		out = wiremessage.AppendMsgSectionType(out, wiremessage.SingleDocument)
	}
	out = append(out, document...)
	return bsoncore.UpdateLength(out, index, int32(len(out)))
}

// answer does what a command says.
func (s *server) answer(command bsoncore.Document, batch []bsoncore.Document) bson.D {
	elements, err := command.Elements()
	if err != nil || len(elements) == 0 {
		s.test.Errorf("no command: %x", command)
		return bson.D{{Key: "ok", Value: 0}}
	}
	name := elements[0].Key()
	s.mutex.Lock()
	s.seen[name]++
	number := s.seen[name]
	s.mutex.Unlock()
	done := bson.D{{Key: "ok", Value: 1}}
	with := func(name string, value any) bson.D { return append(bson.D{{Key: name, Value: value}}, done...) }
	switch name {
	case "isMaster", "ismaster", "hello":
		return append(bson.D{
			{Key: "helloOk", Value: true}, {Key: "ismaster", Value: true}, {Key: "isWritablePrimary", Value: true},
			{Key: "maxBsonObjectSize", Value: 16 << 20}, {Key: "maxMessageSizeBytes", Value: 48000000},
			{Key: "maxWriteBatchSize", Value: 100000}, {Key: "minWireVersion", Value: 0},
			{Key: "maxWireVersion", Value: 17},
		}, done...)
	case "ping":
		return done
	case "listDatabases":
		return append(bson.D{{Key: "databases", Value: bson.A{}}, {Key: "totalSize", Value: 0}}, done...)
	case "insert":
		for _, document := range batch {
			s.put(document, document.Lookup("_id").StringValue())
		}
		return with("n", len(batch))
	case "update":
		time.Sleep(s.delay)
		for s.connections() < s.awaited {
			time.Sleep(time.Millisecond)
		}
		if s.refusing.Load() && number%5 == 0 {
			return bson.D{{Key: "ok", Value: 0}, {Key: "errmsg", Value: "not this one"}, {Key: "code", Value: 8000}}
		}
		matched := 0
		for _, update := range batch {
			if s.put(update.Lookup("u", "$set").Document(), update.Lookup("q", "_id").StringValue()) {
				matched++
			}
		}
		return append(bson.D{{Key: "n", Value: matched}, {Key: "nModified", Value: matched}}, done...)
	case "find":
		rows := s.get(command.Lookup("filter", "_id").StringValue())
		cursor := bson.D{{Key: "id", Value: int64(0)}, {Key: "ns", Value: "ycsb.usertable"}, {Key: "firstBatch", Value: rows}}
		return with("cursor", cursor)
	}
	s.test.Errorf("an unexpected command: %v", command)
	return bson.D{{Key: "ok", Value: 0}, {Key: "errmsg", Value: "no such command"}, {Key: "code", Value: 59}}
}

// put sets the binary fields of a row, and says whether it was there.
func (s *server) put(fields bsoncore.Document, key string) bool {
	elements, err := fields.Elements()
	if err != nil {
		s.test.Error(err)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	row, there := s.table[key]
	if !there {
		row = map[string][]byte{}
		s.table[key] = row
	}
	for _, element := range elements {
		if element.Key() != "_id" {
			_, data := element.Value().Binary()
			row[element.Key()] = bytes.Clone(data)
		}
	}
	return there
}

func (s *server) get(key string) bson.A {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	row, there := s.table[key]
	if !there {
		return bson.A{}
	}
	return bson.A{maps.Clone(row)}
}
