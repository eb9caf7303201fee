WITH located AS (
    SELECT event_id, case_id, event_type, event_time, landed.jurisdiction,
        CAST(event_time AT TIME ZONE timezone AS DATE) AS local_on
    FROM landed JOIN zones ON zones.jurisdiction = landed.jurisdiction
), moves AS (
    SELECT * FROM located JOIN roles USING (jurisdiction, event_type)
    WHERE local_on BETWEEN :first - tracked_days AND :last
), numbered AS (
    SELECT moves.*, days_counted, days_counted - is_countable::INT AS counted_before,
        starts OR pauses IS NOT NULL AS opens
    FROM moves JOIN days ON days.jurisdiction = moves.jurisdiction AND days.day_kind = moves.day_kind AND day = local_on
), ended AS (
    SELECT *,
        count(*) FILTER (starts) OVER later AS later_starts,
        last_value(CASE WHEN stops THEN local_on END IGNORE NULLS) OVER later AS next_stop_on,
        min(CASE WHEN opens THEN local_on END) OVER later AS until,
        min(CASE WHEN opens THEN counted_before END) OVER later AS counted_until
    FROM numbered
    WINDOW later AS (
        PARTITION BY case_id, jurisdiction, clock ORDER BY event_time DESC, event_id DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
), begun AS (
    SELECT *,
        first_value(CASE WHEN starts THEN local_on END) OVER so_far AS started_on,
        first_value(CASE WHEN starts THEN next_stop_on END) OVER so_far AS stopped_on,
        first_value(CASE WHEN starts THEN days_counted END) OVER so_far AS counted_at_start,
        NOT starts AND pauses AS paused
    FROM ended WHERE opens
    WINDOW so_far AS (
        PARTITION BY case_id, jurisdiction, clock, later_starts ORDER BY event_time, event_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
), counted AS (
    SELECT *, greatest(counted_before, counted_at_start) AS counted_from,
        least(stopped_on, started_on + tracked_days) AS ends_on
    FROM begun WHERE started_on IS NOT NULL
), lost AS (
    SELECT *,
        coalesce(sum(CASE WHEN paused THEN greatest(counted_until - counted_from, 0) END) OVER before, 0)::INT
            AS lost_to_pauses
    FROM counted
    WINDOW before AS (
        PARTITION BY case_id, jurisdiction, clock, later_starts ORDER BY event_time, event_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
), segments AS (
    SELECT * EXCLUDE (ends_on, until), counted_at_start + lost_to_pauses AS uncounted,
        counted_from - counted_at_start - lost_to_pauses AS elapsed_before,
        greatest(local_on, started_on) AS first_on,
        least(ends_on, until - 1) AS last_on
    FROM lost
), countable AS (
    SELECT jurisdiction, day_kind, days_counted AS number, day FROM days WHERE is_countable
), due AS (
    SELECT segments.*, exceeded.day AS exceeded_on,
        CASE WHEN NOT paused THEN greatest(reached.day, started_on) END AS due_if_running
    FROM segments
    LEFT JOIN countable AS reached ON reached.jurisdiction = segments.jurisdiction
        AND reached.day_kind = segments.day_kind AND NOT paused AND reached.number = limit_days + uncounted
    LEFT JOIN countable AS exceeded ON exceeded.jurisdiction = segments.jurisdiction
        AND exceeded.day_kind = segments.day_kind AND NOT paused AND exceeded.number = limit_days + uncounted + 1
), deadlines AS (
    SELECT *,
        first_value(CASE WHEN due_if_running <= greatest(last_on, started_on) THEN due_if_running END IGNORE NULLS)
            OVER so_far AS reached_on,
        first_value(CASE WHEN exceeded_on <= last_on THEN exceeded_on END IGNORE NULLS) OVER so_far AS breached_on
    FROM due
    WINDOW so_far AS (
        PARTITION BY case_id, jurisdiction, clock, later_starts ORDER BY event_time, event_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
), daily AS (
    SELECT * EXCLUDE (days_counted),
        CAST(unnest(generate_series(greatest(first_on, :first), least(last_on, :last), INTERVAL 1 DAY)) AS DATE)
            AS business_date
    FROM deadlines WHERE last_on >= :first AND first_on <= last_on
), elapsed AS (
    SELECT daily.*, days_counted,
        CASE WHEN paused THEN elapsed_before ELSE days_counted - uncounted END AS elapsed_days
    FROM daily JOIN days ON days.jurisdiction = daily.jurisdiction AND days.day_kind = daily.day_kind
        AND days.day = business_date
)
SELECT case_id, clock, business_date, elapsed.jurisdiction, started_on,
    CASE WHEN stopped_on <= business_date THEN stopped_on END AS stopped_on,
    paused, elapsed_days, limit_days,
    coalesce(reached_on, due_if_running, projected.day) AS due_on,
    CASE WHEN elapsed_days > limit_days THEN 'BREACHED' WHEN stopped_on <= business_date THEN 'MET'
        WHEN paused THEN 'PAUSED' ELSE 'RUNNING' END AS sla_state,
    CASE WHEN elapsed_days > limit_days THEN breached_on END AS breached_on
FROM elapsed
LEFT JOIN countable AS projected ON projected.jurisdiction = elapsed.jurisdiction
    AND projected.day_kind = elapsed.day_kind AND paused AND reached_on IS NULL
    AND projected.number = days_counted + limit_days - elapsed_days
