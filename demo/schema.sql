CREATE TABLE people (id text PRIMARY KEY, name text NOT NULL, password_hash text);
CREATE TABLE lists (
	id uuid PRIMARY KEY,
	name text NOT NULL,
	owner_id text NOT NULL REFERENCES people
);
CREATE TABLE members (
	id uuid PRIMARY KEY,
	list_id uuid NOT NULL REFERENCES lists ON DELETE CASCADE,
	user_id text NOT NULL REFERENCES people
);
CREATE TABLE todos (
	id uuid PRIMARY KEY,
	list_id uuid NOT NULL REFERENCES lists ON DELETE CASCADE,
	title text NOT NULL,
	done boolean NOT NULL DEFAULT false,
	priority integer,
	due date,
	price numeric(8, 2),
	seen timestamptz
);
CREATE TABLE announcements (id uuid PRIMARY KEY, title text NOT NULL, published boolean NOT NULL);

-- a small id is easier to follow than a random one
CREATE FUNCTION u(n int) RETURNS uuid LANGUAGE sql IMMUTABLE AS
	$$ SELECT (lpad(n::text, 4, '0') || '0000-0000-4000-8000-000000000000')::uuid $$;

INSERT INTO people VALUES ('ada', 'Ada', 'secret'), ('ben', 'Ben', 'secret'), ('cleo', 'Cleo', 'secret');
INSERT INTO lists VALUES (u(1), 'Groceries', 'ada'), (u(2), 'Garden', 'ada'), (u(3), 'Band', 'ben');
INSERT INTO members VALUES (u(90), u(3), 'cleo');
INSERT INTO todos (id, list_id, title, priority, due, price) VALUES
	(u(11), u(1), 'Milk', 1, '2026-03-02', 1.29),
	(u(12), u(1), 'Coffee', 2, NULL, 7.50),
	(u(21), u(2), 'Prune the roses', 1, '2026-03-15', NULL),
	(u(31), u(3), 'New strings', NULL, NULL, 12.00);
INSERT INTO announcements VALUES (u(81), 'Welcome', true), (u(82), 'Not yet', false);
CREATE PUBLICATION powersync FOR ALL TABLES;
