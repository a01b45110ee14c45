CREATE SCHEMA agent_team;

-- Which agents can use this database.
CREATE TABLE agent_team.version (
    version integer NOT NULL,
    agent   text NOT NULL
);

-- The lessons of all repositories, as JSON, with the columns that they are found by. `reason`: of the user who forgot it.
CREATE TABLE agent_team.lessons (
    id               text COLLATE "C" PRIMARY KEY,
    scope            text NOT NULL,
    failure          text,
    is_of_files      boolean NOT NULL,
    is_users         boolean NOT NULL,
    last_occurred_ms bigint NOT NULL,
    terms            tsvector NOT NULL,
    body             text NOT NULL,
    reason           text
);
CREATE INDEX lessons_by_scope ON agent_team.lessons (scope, is_of_files, is_users DESC, last_occurred_ms DESC);
CREATE INDEX lessons_by_failure ON agent_team.lessons USING hash (failure);
CREATE INDEX lessons_by_term ON agent_team.lessons USING gin (terms);

-- The experience of each machine, a random number, with a lesson. It has one vote.
CREATE TABLE agent_team.votes (
    lesson  text COLLATE "C" NOT NULL,
    machine text NOT NULL,
    learned boolean NOT NULL DEFAULT false,
    helped  bigint NOT NULL DEFAULT 0,
    hurt    bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (lesson, machine)
);

-- What each process, a random number, has spent on a day (UTC) in a repository.
CREATE TABLE agent_team.spending (
    scope    text NOT NULL,
    day      text NOT NULL,
    run      text NOT NULL,
    tokens   bigint NOT NULL,
    cost_usd double precision NOT NULL,
    PRIMARY KEY (scope, day, run)
);

-- The lessons with the votes of the machines, and whom they are given to: a lesson that hurts more machines than it
-- helps, or that a user forgot, is given to nobody; one that helped, or that two machines have learnt, to all.
CREATE VIEW agent_team.lesson_states AS
    SELECT l.*, v.learned, v.helped, v.hurt,
        CASE WHEN reason IS NOT NULL OR hurt > helped THEN 'retired'
             WHEN helped > 0 OR learned > 1 THEN 'proven'
             ELSE 'candidate' END AS state
    FROM agent_team.lessons l, LATERAL (
        SELECT count(*) FILTER (WHERE learned) AS learned, count(*) FILTER (WHERE helped > hurt) AS helped,
            count(*) FILTER (WHERE hurt > helped) AS hurt
        FROM agent_team.votes WHERE lesson = l.id) v;

-- A machine learnt a lesson: whether it is the first. The text of the first machine stays.
CREATE FUNCTION agent_team.learn(v jsonb) RETURNS boolean LANGUAGE sql AS $$
    INSERT INTO agent_team.votes (lesson, machine, learned) VALUES (v->>'id', v->>'machine', true)
        ON CONFLICT (lesson, machine) DO UPDATE SET learned = true;
    INSERT INTO agent_team.lessons AS old
        SELECT v->>'id', v->>'scope', v->>'failure', (v->'is_of_files')::boolean, (v->'is_users')::boolean,
            (v->'last_occurred_ms')::bigint,
            array_to_tsvector(ARRAY(SELECT jsonb_array_elements_text(v->'terms'))), v->>'body'
        ON CONFLICT (id) DO UPDATE
            SET last_occurred_ms = greatest(old.last_occurred_ms, excluded.last_occurred_ms)
        RETURNING xmax = 0;
$$;

-- A lesson helped or hurt a machine: id, machine, cases. The balance of its cases is its vote.
CREATE FUNCTION agent_team.vote(v jsonb) RETURNS boolean LANGUAGE sql AS $$
    INSERT INTO agent_team.votes AS old (lesson, machine, helped, hurt)
        SELECT id, v->>1, (v->2)::bigint, (v->3)::bigint FROM agent_team.lessons WHERE id = v->>0
        ON CONFLICT (lesson, machine) DO UPDATE
            SET helped = old.helped + excluded.helped, hurt = old.hurt + excluded.hurt
        RETURNING true;
$$;

-- A user forgot a lesson: id, reason.
CREATE FUNCTION agent_team.retire(v jsonb) RETURNS boolean LANGUAGE sql AS $$
    UPDATE agent_team.lessons SET reason = v->>1 WHERE id = v->>0 AND reason IS NULL RETURNING true;
$$;

-- What a process has spent so far: scope, day, process, tokens, dollars.
CREATE FUNCTION agent_team.spend(v jsonb) RETURNS boolean LANGUAGE sql AS $$
    INSERT INTO agent_team.spending AS old
        VALUES (v->>0, v->>1, v->>2, (v->3)::bigint, (v->4)::double precision)
        ON CONFLICT (scope, day, run) DO UPDATE SET tokens = greatest(old.tokens, excluded.tokens),
            cost_usd = greatest(old.cost_usd, excluded.cost_usd)
        RETURNING true;
$$;

-- The state of a repository: the scope alone.
CREATE FUNCTION agent_team.status(v jsonb) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object(
        'version', (SELECT version FROM agent_team.version),
        'candidate', count(*) FILTER (WHERE state = 'candidate'),
        'proven', count(*) FILTER (WHERE state = 'proven'),
        'retired', count(*) FILTER (WHERE state = 'retired'),
        'machines', (SELECT count(DISTINCT machine) FROM agent_team.votes JOIN agent_team.lessons ON id = lesson
            WHERE scope = v->>0),
        'spending', (SELECT coalesce(jsonb_agg(to_jsonb(days) ORDER BY day DESC), '[]') FROM (
            SELECT day, sum(tokens)::bigint AS tokens, sum(cost_usd) AS cost_usd FROM agent_team.spending
            WHERE scope = v->>0 AND day > to_char(now() AT TIME ZONE 'UTC' - interval '7 days', 'YYYY-MM-DD')
            GROUP BY day) days))
    FROM agent_team.lesson_states WHERE scope = v->>0;
$$;
